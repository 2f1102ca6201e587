// What a person has chosen on the page, shown before the server has answered: a scheme by a control, a cell
// in the panels.

import { makeQuantizer, quantizeTensor } from "../arithmetic/quantizing.js";
import { SHARED } from "../page/component.js";
import { pixelAt } from "../panels/cells.js";
import { unchanged } from "./choice.js";
import { showOnControls } from "./control_looks.js";
import { writePlace } from "./words.js";

// Looks at a server at rest after which it is not going to answer any more: once it has worked, and where it
// was never seen to begin; and the milliseconds between two looks.
const AT_REST = 10;
const NEVER_BEGUN = 200;
const BETWEEN_LOOKS = 50;
// The most cells that are quantized once beforehand, which has the browser compile what it takes.
const MOST_TRIED = 4096;

export class PageChoice {
  constructor(hand) {
    this.hand = hand;
    this.forget();
  }

  // The scheme and the cell that were chosen, until the server has answered; `from` is the scheme before one
  // that has no name here.
  forget() {
    this.scheme = this.selected = this.from = null;
  }

  // Nothing is chosen any more on a hand that was taken off the page.
  close() {
    this.forget();
    this.asked = null;
  }

  get waits() {
    return this.scheme !== null || this.selected !== null;
  }

  // Show all that follows a hand under `scheme`, whose variant has its program; the server is going to say
  // the same. What is refused here is left to the server. Returns whether it is shown.
  make(scheme, variant) {
    const { hand } = this;
    if (hand.moving || hand.data.far) return this.leave();
    const data = dataUnder(scheme, variant, hand.data);
    if (!this.show(data, this.quantizerOf(scheme, variant))) return false;
    showOnControls(scheme);
    return true;
  }

  // The same with other numbers of the present calibration, by its fields: `{ lo, hi }`, `{ scale,
  // zero_point }` or `{ p }`. The server alone has a name for their scheme.
  calibrate(id, numbers) {
    const { hand } = this;
    if (hand.moving || hand.data.far || this.waits) return this.leave();
    const { current, variants, scheme } = hand.data;
    const { arithmetic, layout } = hand.partsOf(current);
    const own = id === "percentile" ? { arithmetic: atPercentile(arithmetic, numbers.p), layout } : null;
    const data = {
      ...hand.data,
      scheme: `${scheme} ${Object.values(numbers)}`,
      variants: [...variants, variants[current]],
      current: variants.length,
    };
    this.from = scheme;
    if (!this.show(data, own ?? { arithmetic, layout }, own ? null : { id, ...numbers })) return;
    hand.told.begin();
    hand.told.tell({ id, ...numbers }, data.settings.writing);
  }

  show(data, quantizer, calibration = null) {
    const { hand } = this;
    const before = { data: hand.data, choice: hand.choice, shown: hand.shown };
    hand.data = data;
    hand.made.set(data.current, quantizer);
    hand.choice = { ...unchanged(data), calibration };
    hand.shown = hand.computed(hand.choice);
    if (hand.shown.refused) {
      Object.assign(hand, before);
      return this.leave();
    }
    this.scheme = data.scheme;
    hand.painted = performance.now();
    // What is chosen is there at once: nothing glides.
    hand.present(false);
    hand.showPanels(true);
    this.await();
    return true;
  }

  // What a scheme quantizes with, made once for as long as the browser keeps the scheme.
  quantizerOf(scheme, { program, layout }) {
    const { quantizers } = SHARED.known;
    if (!quantizers.has(scheme)) quantizers.set(scheme, makeQuantizer(program, layout));
    return quantizers.get(scheme);
  }

  // Make what a scheme quantizes with before it is chosen.
  prepare(scheme, variant) {
    const { far, x } = this.hand.data;
    if (far || SHARED.known.quantizers.has(scheme)) return;
    const { arithmetic, layout } = this.quantizerOf(scheme, variant);
    if (x.length <= MOST_TRIED) quantizeTensor(arithmetic, x, layout);
  }

  // Show all that follows a hand of another cell of the Lab's matrix.
  select([row, col]) {
    const { hand } = this;
    const { data, bridge } = hand;
    const { row_edges: rows, col_edges: cols, how } = bridge?.cells ?? {};
    const isLab = data && SHARED.controls?.chart === data.chart;
    // Of a matrix that is seen in another tensor only the server knows the place.
    if (!isLab || hand.moving || data.far || how || !rows || data.shape.length !== 2) return;
    // A cell that was typed may lie beyond those in view.
    if (!pixelAt(bridge.cells, row, col)) return;
    const selected = data.places[(row - rows[0]) * data.seen[1] + col - cols[0]];
    if (selected === data.selected) return;
    // What is marked on the curve of another block is not known here.
    const curve = data.curve?.block ? { ...data.curve, key: `${data.curve.key} ${selected}` } : data.curve;
    hand.data = { ...data, selected, curve };
    hand.shown = hand.computed(hand.choice);
    this.selected = selected;
    writePlace([row, col], data.words.place);
    hand.present(false);
    this.await();
  }

  // Whether the server has not heard of the choice when it sent `data`.
  isAhead(data) {
    this.newest = data;
    if (this.scheme === data.scheme || (this.from && this.from !== data.scheme)) this.scheme = null;
    if (this.selected === data.selected) this.selected = null;
    // What the server has sent with it shows its own scheme.
    if (this.scheme) requestAnimationFrame(() => this.scheme && showOnControls(this.scheme));
    return this.waits;
  }

  // Show what the server said last, and whatever it says next: what the page has chosen is not known here. It
  // says nothing where that is what it said last.
  leave() {
    this.forget();
    const { hand } = this;
    const known = hand.waiting ?? this.newest;
    if (known && (hand.waiting || known.scheme !== hand.data.scheme)) hand.update(known, hand.send);
    return false;
  }

  // Wait for the server's answer.
  await() {
    const asked = (this.asked = performance.now());
    setTimeout(() => this.watch(asked), BETWEEN_LOOKS);
  }

  // Show again what the server knows, where it has come to rest without the choice: it was refused.
  watch(asked, looks = NEVER_BEGUN) {
    if (!this.waits || this.asked !== asked) return;
    const app = document.querySelector("[data-testid=stApp]");
    const left = app?.dataset.testScriptState === "notRunning" ? looks - 1 : AT_REST;
    if (left > 0) return setTimeout(() => this.watch(asked, left), BETWEEN_LOOKS);
    if (this.from) this.hand.told.takeBack();
    this.forget();
    showOnControls(this.newest.scheme);
    this.hand.update(this.newest, this.hand.send);
  }
}

// Arithmetic that asks for another percentile, and for as much at the other end.
function atPercentile({ parts, facts }, p) {
  const upper = ({ percent }) => percent > 50;
  const asks = facts.asks.map((ask) => ({ ...ask, percent: upper(ask) ? p : 100 - p }));
  return { parts, facts: { ...facts, asks } };
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
