// A button that fills the screen with a code to scan. Escape or a click closes it.

import { lasting } from "./page/component.js";

const STYLE = `
button { font: inherit; font-size: var(--qv-14); font-weight: 600; min-height: var(--qv-button);
  padding: 0 1rem; cursor: pointer; width: 100%;
  border: 1px solid transparent; border-radius: var(--st-button-radius, 0.4rem);
  background: var(--st-primary-color); color: light-dark(#ffffff, #06252c); }
button:focus-visible { outline: 2px solid var(--st-primary-color); outline-offset: 2px; }
dialog { border: 0; margin: 0; padding: 0; width: 100vw; height: 100vh; max-width: none; max-height: none;
  background: #ffffff; color: #000000; cursor: pointer; }
dialog[open] { display: flex; flex-direction: column; align-items: center; justify-content: center; }
dialog:focus-visible { outline: none; }
img { width: min(100vw, calc(100vh - 3.6rem)); image-rendering: pixelated; }
p { margin: 0; padding: 0 1rem; height: 3.6rem; display: flex; align-items: center; text-align: center;
  font: 600 var(--qv-20) ui-monospace, monospace; overflow-wrap: anywhere; }
p[data-long] { font-size: var(--qv-14); }`;
/** Characters of an address that stand on one line in large letters. */
const SHORT = 70;

class FullScreenCode {
  constructor(parent) {
    const page = parent.ownerDocument;
    parent.innerHTML = `<style>${STYLE}</style><button type="button"></button><dialog><img><p></p></dialog>`;
    const parts = { button: "button", dialog: "dialog", image: "img", address: "p" };
    for (const [part, name] of Object.entries(parts)) this[part] = parent.querySelector(name);
    this.button.addEventListener("click", () => this.open());
    this.dialog.addEventListener("click", () => this.dialog.close());
    this.dialog.addEventListener("close", () => page.fullscreenElement && page.exitFullscreen());
    // The first Escape is the browser's own, which leaves the full screen.
    this.onScreen = () => page.fullscreenElement || this.dialog.close();
    page.addEventListener("fullscreenchange", this.onScreen);
    this.page = page;
  }

  update(data) {
    this.button.textContent = data.label;
    this.dialog.setAttribute("aria-label", data.alt);
    this.image.alt = data.alt;
    this.image.src = data.source;
    this.address.textContent = data.address;
    this.address.toggleAttribute("data-long", data.address.length > SHORT);
  }

  async open() {
    // Where a browser has no full screen, as on an iPhone, the code fills its window. The dialog comes last:
    // what comes later lies above.
    await this.page.documentElement.requestFullscreen?.().catch(() => {});
    this.dialog.showModal();
  }

  close() {
    this.page.removeEventListener("fullscreenchange", this.onScreen);
    this.dialog.close();
  }
}

export default lasting(FullScreenCode);
