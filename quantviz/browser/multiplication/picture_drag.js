// Dragging in the picture of a small layer: the marked weight in Wᵀ, or the marked input in X, whose channel
// grows and shrinks as a whole. Up and to the right makes it larger.

import { powerOfTen, toUnit } from "../ruler/figures.js";
import { AXES, partAt } from "./parts.js";

// Pixels from one end of a knob to the other.
const KNOB_WAY = 400;
// The knob that each part's marked cell is.
const KNOBS = { x: "channel", w: "weight" };

export class PictureDrag {
  constructor(hand) {
    this.hand = hand;
    this.stop = new AbortController();
    const options = { signal: this.stop.signal, capture: true };
    window.addEventListener("pointerdown", (event) => this.press(event), options);
    window.addEventListener("pointermove", (event) => this.move(event), options);
    window.addEventListener("pointerup", (event) => this.end(event, "release"), options);
    window.addEventListener("pointercancel", (event) => this.end(event, "giveUp"), options);
    window.addEventListener("keydown", (event) => event.key === "Escape" && this.giveUp(), options);
    // A finger on the marked cell does not scroll the page.
    window.addEventListener("touchmove", (event) => this.held && event.preventDefault(), {
      signal: this.stop.signal,
      passive: false,
    });
  }

  // The knob of the marked cell under a pointer.
  knobAt({ picture, data, knobs }, event) {
    if (!picture?.gd || !picture.container?.contains(event.target)) return null;
    const found = partAt(picture.gd, event.clientX, event.clientY);
    if (!found || !KNOBS[found.part.name]) return null;
    const { edges } = picture.known;
    const [rowAxis, colAxis] = AXES[found.part.name];
    const [token, output, channel] = data.cell;
    const marked = [token, channel, output];
    const same =
      edges[rowAxis][found.row] === marked[rowAxis] && edges[colAxis][found.col] === marked[colAxis];
    return same ? (knobs.knobs.get(KNOBS[found.part.name]) ?? null) : null;
  }

  press(event) {
    if (event.button || !event.isPrimary) return;
    const knob = this.knobAt(this.hand, event);
    if (!knob) return;
    // Plotly would draw a box to zoom to.
    event.preventDefault();
    event.stopPropagation();
    const from = Number(knob.input.value);
    const step = (knob.most - knob.least) / KNOB_WAY;
    this.held = { pointer: event.pointerId, at: event.clientX - event.clientY, from, step, knob };
  }

  move(event) {
    const { held } = this;
    if (held?.pointer !== event.pointerId) return;
    event.stopPropagation();
    const way = event.clientX - event.clientY - held.at;
    if (!held.moved && Math.abs(way) < 3) return;
    held.moved = true;
    const { least, most, name } = held.knob;
    const value = toUnit(held.from + way * held.step, powerOfTen(held.step));
    held.value = Math.min(Math.max(value, least), most);
    held.frame ??= requestAnimationFrame(() => {
      held.frame = null;
      this.hand.move(name, held.value);
    });
  }

  end(event, how) {
    const { held } = this;
    if (held?.pointer !== event.pointerId) return;
    if (!held.moved) return (this.held = null);
    if (how === "giveUp") return this.giveUp();
    cancelAnimationFrame(held.frame);
    this.held = null;
    this.hand.move(held.knob.name, held.value);
    this.hand.release();
  }

  giveUp() {
    if (!this.held) return;
    cancelAnimationFrame(this.held.frame);
    this.held = null;
    this.hand.giveUp();
  }

  close() {
    this.stop.abort();
  }
}
