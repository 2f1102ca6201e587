// What each page without a server is: it shows what its address asks for, or what was saved, and says in its
// address what a hand made of that.

import { MADE } from "../arithmetic/quantizing.js";
import { readPacked } from "../page/component.js";

export class Page {
  constructor({ pieces, programs }) {
    for (const [name, made] of Object.entries(programs)) MADE.set(name, made);
    Object.assign(this, readPacked(pieces.page));
    this.saved = readPacked(pieces.hand);
    this.make(pieces);
    document.getElementById("qv-reset").addEventListener("click", () => this.show(this.saved));
    addEventListener("hashchange", () => location.hash.slice(1) !== this.address && this.read());
    this.read();
    const { body } = document;
    if (this.told)
      new ResizeObserver(() => parent.postMessage({ height: body.offsetHeight }, "*")).observe(body);
  }

  // Show what the address asks for; of one that cannot be used the page says so, and shows what was saved.
  read() {
    const address = this.told ? frameElement?.dataset.address : location.hash.slice(1);
    const data = address ? this.asked(address) : this.saved;
    document.getElementById("qv-lost").hidden = data !== null;
    this.show(data ?? this.saved);
  }

  show(data) {
    this.data = data;
    this.render(data);
    document.getElementById("qv-scheme").textContent = this.scheme(data);
    document.getElementById("qv-reset").disabled = data === this.saved;
    this.address = data === this.saved ? "" : this.addressOf(data);
    // In a frame the page has no address of its own, and tells the page or the notebook around it instead.
    if (this.told) parent.postMessage({ ...this.chosen(data), address: this.address }, "*");
    else if (this.address !== location.hash.slice(1)) history.replaceState(null, "", `#${this.address}`);
  }
}
