// Drags that move a number: what a hand holds moves once a frame, and is told at its end.

import { powerOfTen, toUnit } from "../ruler/figures.js";

// Pixels from one end of the numbers that the hand reaches to the other.
export const WAY = 400;

export class Drag {
  // `grab(event)` returns what a pointer takes hold of in `place`: `valueAt(event)`, undefined while nothing has
  // moved, and what follows the hand: `move(value)`, `release(value)` and `giveUp()`; nothing where it takes hold
  // of nothing.
  constructor(place, grab) {
    this.grab = grab;
    this.stop = new AbortController();
    const options = { signal: this.stop.signal, capture: true };
    place.addEventListener("pointerdown", (event) => this.press(event), options);
    place.addEventListener("pointermove", (event) => this.drag(event), options);
    place.addEventListener("pointerup", (event) => this.end(event, "release"), options);
    place.addEventListener("pointercancel", (event) => this.end(event, "giveUp"), options);
  }

  press(event) {
    const held = event.button || !event.isPrimary ? null : this.grab(event);
    if (!held) return;
    // Plotly would draw a box to zoom to.
    event.preventDefault();
    event.stopPropagation();
    this.held = { ...held, pointer: event.pointerId };
    this.drag(event);
  }

  drag(event) {
    const { held } = this;
    if (held?.pointer !== event.pointerId) return;
    event.stopPropagation();
    held.value = held.valueAt(event) ?? held.value;
    if (held.value === undefined) return;
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

// Dragging a marked cell of a picture: up and to the right makes its number larger. `grab` gives the number `from`
// which it starts and the `step` of a pixel in place of `valueAt`.
export class NumberDrag extends Drag {
  constructor(grab) {
    super(window, (event) => {
      const held = grab(event);
      return held && { ...held, valueAt: numberAt(held, event.clientX - event.clientY) };
    });
    const options = { signal: this.stop.signal, capture: true };
    window.addEventListener("keydown", (event) => event.key === "Escape" && this.giveUp(), options);
  }
}

function numberAt({ from, step }, start) {
  let isMoved = false;
  return ({ clientX, clientY }) => {
    const way = clientX - clientY - start;
    // A click on the cell moves nothing.
    isMoved ||= Math.abs(way) >= 3;
    return isMoved ? toUnit(from + way * step, powerOfTen(step)) : undefined;
  };
}
