// A scheme that a control of the page has chosen, shown before the server has answered.

import { unchanged } from "./choice.js";

// Looks at a server at rest after which it is not going to answer any more: once it has worked, and where it
// was never seen to begin; and the milliseconds between two looks.
const AT_REST = 10;
const NEVER_BEGUN = 200;
const BETWEEN_LOOKS = 50;

export class PageChoice {
  constructor(hand) {
    this.hand = hand;
    this.scheme = null;
  }

  // Show all that follows a hand under `scheme`, whose variant has its program; the server is going to say
  // the same. What is refused here is left to the server.
  make(scheme, variant) {
    const { hand } = this;
    if (hand.moving || hand.data.far) return this.leave();
    const { data, choice, shown, programs } = hand;
    hand.programs = [...programs, variant.program];
    hand.data = dataUnder(scheme, { ...variant, program: hand.programs.length - 1 }, data);
    hand.choice = unchanged(hand.data);
    hand.shown = hand.computed(hand.choice);
    if (hand.shown.refused) {
      Object.assign(hand, { data, choice, shown, programs });
      return this.leave();
    }
    this.scheme = scheme;
    hand.painted = performance.now();
    // What is chosen is there at once: nothing glides.
    hand.present(false);
    hand.showPanels(true);
    this.watch(hand.painted);
  }

  // Whether the server has not heard of the choice when it sent `data`.
  isAhead(data) {
    this.newest = data;
    if (this.scheme === data.scheme) this.scheme = null;
    return this.scheme !== null;
  }

  forget() {
    this.scheme = null;
  }

  // Take whatever the server says next: what the page has chosen is not known here.
  leave() {
    this.forget();
    if (this.hand.waiting) this.hand.update(this.hand.waiting, this.hand.send);
  }

  // Show again what the server knows, where it has come to rest without the scheme: it was refused.
  watch(painted, looks = NEVER_BEGUN) {
    if (!this.scheme || this.hand.painted !== painted) return;
    const app = document.querySelector("[data-testid=stApp]");
    const left = app?.dataset.testScriptState === "notRunning" ? looks - 1 : AT_REST;
    if (left > 0) return setTimeout(() => this.watch(painted, left), BETWEEN_LOOKS);
    this.forget();
    this.hand.update(this.newest, this.hand.send);
  }
}

// What the server would send under another scheme of the same tensor, as far as that is known.
function dataUnder(scheme, variant, data) {
  const { range_counts: ranged, symmetric } = variant;
  const { tooth } = data.handles;
  return {
    ...data,
    scheme,
    symmetric,
    stops: variant.stops,
    variants: [...data.variants, variant],
    current: data.variants.length,
    found: null,
    handles: { ...data.handles, range: tooth && ranged, zero: tooth && !symmetric },
    with_range: data.pays ? ranged : data.with_range,
    curve: data.curve && ranged ? { ...data.curve, key: scheme } : null,
  };
}
