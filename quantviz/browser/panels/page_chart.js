// A chart of plotly's in the page, which Streamlit throws away and draws again with each change of its data, and the
// card beside the pointer.

import { clamp, inPixels } from "./geometry.js";

const STYLE_OF_CARD = `
  position: fixed; left: 0; top: 0; z-index: 1000050; pointer-events: none; visibility: hidden;
  display: grid; grid-template-columns: auto auto; gap: 1px 12px; padding: 7px 10px;
  border-radius: 6px; box-shadow: 0 2px 10px rgba(0, 0, 0, 0.25);
  font-size: var(--qv-14); line-height: 1.35; font-variant-numeric: tabular-nums;
  max-width: min(320px, 92vw);`;

class Card {
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

// Milliseconds that an old picture waits for the new one.
const GHOST = 2000;

// What is made for it has `find()`, called with each change of the page, and `leave()`, called when the page is
// scrolled; `gd` is the chart as it is now, `container` its place, and `place` its box in that.
export class PageChart {
  constructor() {
    this.stop = new AbortController();
    this.card = new Card();
    this.timers = {};
    this.observer = new MutationObserver(() => this.find());
    this.observer.observe(document.body, { childList: true, subtree: true });
    const { signal } = this.stop;
    window.addEventListener("scroll", () => this.leave(), { signal, capture: true, passive: true });
  }

  later(name, wait, act) {
    clearTimeout(this.timers[name]);
    this.timers[name] = setTimeout(act, wait);
  }

  // Keep the old picture in sight until the new one is drawn; otherwise the page blinks at each change.
  lose() {
    const picture = this.gd.querySelector(".svg-container");
    this.gd = null;
    if (!picture || !this.container || !this.place) return;
    this.ghost?.remove();
    this.ghost = document.createElement("div");
    this.ghost.setAttribute("aria-hidden", "true");
    this.ghost.style.cssText = "position: absolute; pointer-events: none; overflow: hidden;";
    Object.assign(this.ghost.style, inPixels(this.place));
    this.ghost.append(picture);
    this.container.append(this.ghost);
    this.container.style.minHeight = `${this.container.clientHeight || this.place.height}px`;
    this.later("ghost", GHOST, () => this.dropGhost());
  }

  dropGhost() {
    this.ghost?.remove();
    this.ghost = null;
    if (this.container) this.container.style.minHeight = "";
  }

  close() {
    this.stop.abort();
    this.observer.disconnect();
    Object.values(this.timers).forEach(clearTimeout);
    this.card.remove();
    this.overlay?.remove();
    this.dropGhost();
    // The chart may outlive this and still call its listeners: they do nothing without `gd`.
    this.gd = this.overlay = null;
  }
}
