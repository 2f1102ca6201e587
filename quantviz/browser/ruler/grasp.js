// How a hand holds a handle: pointers and keys become messages, at most one a frame.

import { KeysMove } from "../page/keys_move.js";
import { handleAt, messageOf, valueAfter, valueAt } from "./handles.js";

// Milliseconds without a key after which a move by keys ends.
const KEYS_REST = 400;

// Between press and release `hand` says what is held: `{ id, value, message, axis }`, else it is null.
export class Grasp {
  constructor(ruler) {
    this.ruler = ruler;
    this.hand = null;
    this.keys = new KeysMove(() => this.release());
    const { root } = ruler;
    root.addEventListener("pointerdown", (event) => this.press(event));
    // The focus is with the nearest handle, not with the element that happens to lie on top.
    root.addEventListener("mousedown", (event) => this.hand && event.preventDefault());
    root.addEventListener("pointermove", (event) => this.drag(event));
    root.addEventListener("pointerup", (event) => this.isOurs(event) && this.release());
    root.addEventListener("pointercancel", (event) => this.isOurs(event) && this.giveUp());
    root.addEventListener("keydown", (event) => this.type(event));
    root.addEventListener("focusout", () => this.hand?.keys && this.leave());
  }

  isOurs(event) {
    return this.hand?.pointer === event.pointerId;
  }

  placeOf(event) {
    const box = this.ruler.root.getBoundingClientRect();
    const { enlarge } = this.ruler;
    return { x: (event.clientX - box.left) / enlarge, y: (event.clientY - box.top) / enlarge };
  }

  press(event) {
    if (event.button || (this.hand && !this.hand.keys)) return;
    const { x, y } = this.placeOf(event);
    const handle = handleAt(this.ruler.handles, x, y, this.ruler.bands);
    if (!handle || this.isNearerToRing(event, handle, x)) return;
    if (this.hand) this.release();
    if (handle.kind === "tooth") this.ruler.tooth = handle.id;
    // The focus shows where keys go: a hand knows where it is.
    this.ruler.root.dataset.by = "hand";
    this.ruler.elementOf(handle.id).focus({ preventScroll: true });
    this.ruler.root.setPointerCapture(event.pointerId);
    // The handle keeps its place under the pointer, except where a press is a place: on a track, or a mark.
    const isPlace = handle.places || handle.kind === "mark";
    const grip = isPlace ? 0 : x - handle.box.x;
    this.take(handle, { pointer: event.pointerId, grip, from: x });
    if (isPlace) this.moveTo(valueAt(handle, x, this.hand.axis));
    // A tap sets a mark wherever it is, also where the keys would begin.
    if (handle.kind === "mark") this.hand.moved = true;
  }

  // Whether a press is meant for a ring on the curve, near which the range's knob rides.
  isNearerToRing(event, handle, x) {
    const [pressed] = event.composedPath();
    if (!pressed.classList.contains("qv-ruler-take")) return false;
    const { left, width } = pressed.getBoundingClientRect();
    const off = Math.abs(event.clientX - left - width / 2) / this.ruler.enlarge;
    return off <= Math.abs(x - handle.box.x);
  }

  take(handle, more) {
    this.ruler.endGliding();
    const { axis, seen } = this.ruler;
    const message = messageOf(handle, handle.value, seen.range, seen.symmetric);
    this.hand = {
      id: handle.id,
      handle,
      axis,
      range: seen.range,
      value: handle.value,
      start: message,
      ...more,
    };
    this.hand.message = message;
    this.ruler.root.dataset.held = handle.kind;
  }

  drag(event) {
    if (!this.isOurs(event)) return;
    const { x } = this.placeOf(event);
    const { handle, axis, grip, from } = this.hand;
    if (!this.hand.moved && x === from && !handle.places) return;
    this.moveTo(valueAt(handle, x - grip, axis));
  }

  type(event) {
    delete this.ruler.root.dataset.by;
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "Escape") {
      if (!this.hand) return;
      event.preventDefault();
      event.stopPropagation();
      return this.giveUp();
    }
    if (this.hand && !this.hand.keys) return;
    const handle = this.ruler.handleOf(event.target);
    if (!handle) return;
    if (handle.kind === "tooth" && (event.key === "PageUp" || event.key === "PageDown")) {
      event.preventDefault();
      return this.ruler.focusTooth(handle, event.key === "PageUp" ? 1 : -1);
    }
    if (handle.kind === "mark" && (event.key === "Enter" || event.key === " ")) {
      event.preventDefault();
      if (this.hand) this.hand.moved = true;
      return this.release();
    }
    const now = this.hand?.id === handle.id ? this.hand.value : handle.value;
    const value = valueAfter(handle, now, event.key, event.shiftKey);
    if (value === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    if (this.hand?.id !== handle.id) {
      if (this.hand) this.release();
      this.take(handle, { keys: true });
    }
    // A mark is set once: it waits for Enter.
    if (handle.kind !== "mark") this.keys.goOn(KEYS_REST);
    this.moveTo(value);
  }

  moveTo(value) {
    const { hand, ruler } = this;
    if (value === hand.value) return;
    hand.value = value;
    hand.moved = true;
    hand.message = messageOf(hand.handle, value, hand.range, ruler.picture.symmetric);
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      this.tell(this.hand.message);
    });
  }

  // Tell the owner; where it has no new picture yet, the handle moves all the same.
  tell(message) {
    const { ruler } = this;
    const before = ruler.shown;
    ruler.on.move?.(message);
    if (ruler.shown === before) ruler.repaint();
  }

  // Tell at once what waits for the next frame.
  flush() {
    if (!this.frame) return;
    cancelAnimationFrame(this.frame);
    this.frame = null;
    this.tell(this.hand.message);
  }

  release() {
    const { hand, ruler } = this;
    if (!hand) return;
    this.flush();
    // Until the owner's next picture all stays where the hand left it.
    if (hand.moved) ruler.released = hand.message;
    this.letGo();
    if (hand.moved) ruler.on.release?.(hand.message);
  }

  // The keyboard goes elsewhere: what was moved stays, a mark that was not set does not.
  leave() {
    if (this.hand.handle.kind === "mark") this.giveUp();
    else this.release();
  }

  // Everything is as before the hand came.
  giveUp() {
    const { hand, ruler } = this;
    if (!hand) return;
    cancelAnimationFrame(this.frame);
    this.frame = null;
    hand.message = hand.start;
    if (hand.moved) this.tell(hand.start);
    this.letGo();
    if (hand.moved) ruler.on.cancel?.(hand.start);
  }

  letGo() {
    const { hand, ruler } = this;
    this.keys.forget();
    this.hand = null;
    delete ruler.root.dataset.held;
    if (hand.pointer !== undefined && ruler.root.hasPointerCapture(hand.pointer))
      ruler.root.releasePointerCapture(hand.pointer);
    ruler.repaint();
  }

  close() {
    cancelAnimationFrame(this.frame);
    this.keys.forget();
    this.hand = null;
  }
}
