// A chart of plotly's in the page: Streamlit throws it away and draws it again with each change of its data.

import { inPixels } from "./geometry.js";
import { Card } from "./card.js";

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
