// A line over a picture that says why a place cannot be had: above the ruler, or below the knobs of a layer.

import { filled } from "../ruler/figures.js";

export class Status {
  constructor(host, place = "top: 2px; right: 8px;") {
    this.host = host;
    this.place = place;
  }

  say(reason, { font, text }) {
    if (!this.element) {
      this.element = this.host.appendChild(document.createElement("div"));
      this.element.className = "qv-hand-status";
      this.element.style.cssText = `position: absolute; ${this.place} pointer-events: none;
        font: 12px ${font}; color: ${text};`;
      this.element.setAttribute("role", "status");
    }
    if (this.element.textContent !== reason) this.element.textContent = reason;
  }

  close() {
    this.element?.remove();
    this.element = null;
  }
}

// The sentence of `refusals`, the server's, on why the arithmetic refused a place.
export function reasonOf({ key, ...numbers }, refusals) {
  return filled(refusals[key] ?? refusals.other, numbers);
}
