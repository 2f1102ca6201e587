// The card beside the pointer.

import { clamp } from "./geometry.js";

const STYLE_OF_CARD = `
  position: fixed; left: 0; top: 0; z-index: 1000050; pointer-events: none; visibility: hidden;
  display: grid; grid-template-columns: auto auto; gap: 1px 12px; padding: 7px 10px;
  border-radius: 6px; box-shadow: 0 2px 10px rgba(0, 0, 0, 0.25);
  font-size: var(--qv-14); line-height: 1.35; font-variant-numeric: tabular-nums;
  max-width: min(320px, 92vw);`;

export class Card {
  constructor() {
    this.box = document.body.appendChild(document.createElement("div"));
    this.box.className = "qv-card";
    this.box.setAttribute("aria-hidden", "true");
    this.box.style.cssText = STYLE_OF_CARD;
  }

  paint({ surface, text, line, font }) {
    Object.assign(this.box.style, {
      background: surface,
      color: text,
      border: `1px solid ${line}`,
      fontFamily: font,
    });
  }

  show(lines, clientX, clientY, above) {
    const parts = lines.flatMap(([label, value]) => {
      const name = document.createElement("span");
      name.textContent = label;
      if (value === null) {
        Object.assign(name.style, { gridColumn: "1 / -1", fontWeight: "600" });
        return [name];
      }
      name.style.opacity = "0.75";
      const number = document.createElement("span");
      number.textContent = value;
      number.style.textAlign = "right";
      return [name, number];
    });
    this.box.replaceChildren(...parts);
    const { offsetWidth: width, offsetHeight: height } = this.box;
    // Beside the pointer, on the side where the window has room.
    const left = clientX + 16 + width <= innerWidth - 4 ? clientX + 16 : clientX - 16 - width;
    const [higher, lower] = [clientY - 16 - height, clientY + 16];
    // Above a finger, which hides what is below it.
    const besideFinger = higher >= 4 ? higher : clientY + 40;
    const top = above ? besideFinger : lower + height <= innerHeight - 4 ? lower : higher;
    const x = Math.round(clamp(left, 4, Math.max(4, innerWidth - 4 - width)));
    const y = Math.round(clamp(top, 4, Math.max(4, innerHeight - 4 - height)));
    this.box.style.transform = `translate(${x}px, ${y}px)`;
    this.box.style.visibility = "visible";
  }

  hide() {
    this.box.style.visibility = "hidden";
  }

  remove() {
    this.box.remove();
  }
}
