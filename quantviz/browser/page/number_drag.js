// Dragging a marked cell of a picture: up and to the right makes its number larger.

import { powerOfTen, toUnit } from "../ruler/figures.js";

// Pixels from one end of the numbers that the hand reaches to the other.
export const WAY = 400;

export class NumberDrag {
  // `grab(event)` returns what a pointer takes hold of: the number `from` which it starts, the `step` of a
  // pixel, and what follows the hand: `move(value)`, `release(value)` and `giveUp()`; nothing where it takes
  // hold of nothing.
  constructor(grab) {
    this.grab = grab;
    this.stop = new AbortController();
    const options = { signal: this.stop.signal, capture: true };
    window.addEventListener("pointerdown", (event) => this.press(event), options);
    window.addEventListener("pointermove", (event) => this.drag(event), options);
    window.addEventListener("pointerup", (event) => this.end(event, "release"), options);
    window.addEventListener("pointercancel", (event) => this.end(event, "giveUp"), options);
    window.addEventListener("keydown", (event) => event.key === "Escape" && this.giveUp(), options);
  }

  press(event) {
    const held = event.button || !event.isPrimary ? null : this.grab(event);
    if (!held) return;
    // Plotly would draw a box to zoom to.
    event.preventDefault();
    event.stopPropagation();
    this.held = { ...held, pointer: event.pointerId, at: event.clientX - event.clientY };
  }

  drag(event) {
    const { held } = this;
    if (held?.pointer !== event.pointerId) return;
    event.stopPropagation();
    const way = event.clientX - event.clientY - held.at;
    // A click on the cell moves nothing.
    if (held.value === undefined && Math.abs(way) < 3) return;
    held.value = toUnit(held.from + way * held.step, powerOfTen(held.step));
    held.frame ??= requestAnimationFrame(() => {
      held.frame = null;
      held.move(held.value);
    });
  }

  end(event, how) {
    const { held } = this;
    if (held?.pointer !== event.pointerId) return;
    if (how === "giveUp" && held.value !== undefined) return this.giveUp();
    this.letGo();
    if (held.value === undefined) return;
    held.move(held.value);
    held.release(held.value);
  }

  giveUp() {
    const { held } = this;
    this.letGo();
    held?.giveUp();
  }

  letGo() {
    cancelAnimationFrame(this.held?.frame);
    this.held = null;
  }

  close() {
    this.letGo();
    this.stop.abort();
  }
}
