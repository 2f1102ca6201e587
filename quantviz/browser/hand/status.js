// A line above the ruler that says why a place cannot be had.

export class Status {
  constructor(host) {
    this.host = host;
  }

  say(reason, { font, text }) {
    if (!this.element) {
      this.element = this.host.appendChild(document.createElement("div"));
      this.element.className = "qv-hand-status";
      this.element.style.cssText = `position: absolute; top: 2px; right: 8px; pointer-events: none;
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
