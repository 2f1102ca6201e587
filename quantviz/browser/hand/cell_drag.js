// Dragging the selected cell in x's panel: up and to the right makes its value larger.

import { same } from "../panels/geometry.js";
import { cellUnder } from "../panels/layout.js";
import { powerOfTen, toUnit } from "../ruler/figures.js";

// Pixels from one end of the ruler to the other, as the hand moves in the panel.
const WAY = 400;

export class CellDrag {
  constructor(hand) {
    this.hand = hand;
    this.stop = new AbortController();
    const options = { signal: this.stop.signal, capture: true };
    window.addEventListener("pointerdown", (event) => this.press(event), options);
    window.addEventListener("pointermove", (event) => this.drag(event), options);
    window.addEventListener("pointerup", (event) => this.end(event, "release"), options);
    window.addEventListener("pointercancel", (event) => this.end(event, "giveUp"), options);
    const escape = (event) => this.held && event.key === "Escape" && this.giveUp();
    window.addEventListener("keydown", escape, options);
  }

  press(event) {
    const { bridge, data, shown } = this.hand;
    if (!data.handles.value || event.button || !event.isPrimary) return;
    if (!bridge?.gd || !bridge.container?.contains(event.target) || event.target.closest?.(".modebar"))
      return;
    const found = cellUnder(bridge, event.clientX, event.clientY);
    if (found?.panel !== "x" || !same(found.cell, bridge.selected)) return;
    const index = shown.places.indexOf(data.selected);
    if (index < 0) return;
    // Plotly would draw a box to zoom to.
    event.preventDefault();
    event.stopPropagation();
    const [lo, hi] = this.hand.domain;
    this.held = {
      pointer: event.pointerId,
      at: event.clientX - event.clientY,
      from: shown.x[data.selected],
      step: (hi - lo) / WAY,
      index,
    };
  }

  drag(event) {
    const { held } = this;
    if (held?.pointer !== event.pointerId) return;
    event.stopPropagation();
    const way = event.clientX - event.clientY - held.at;
    if (!held.message && Math.abs(way) < 3) return;
    const value = toUnit(held.from + way * held.step, powerOfTen(held.step));
    held.message = { kind: "value", cell: held.index, value };
    held.frame ??= requestAnimationFrame(() => {
      held.frame = null;
      this.hand.move(held.message);
    });
  }

  end(event, how) {
    const { held } = this;
    if (held?.pointer !== event.pointerId) return;
    if (!held.message) return (this.held = null);
    if (how === "giveUp") return this.giveUp();
    cancelAnimationFrame(held.frame);
    this.held = null;
    this.hand.move(held.message);
    this.hand.release(held.message);
  }

  giveUp() {
    cancelAnimationFrame(this.held.frame);
    this.held = null;
    this.hand.giveUp();
  }

  close() {
    cancelAnimationFrame(this.held?.frame);
    this.held = null;
    this.stop.abort();
  }
}
