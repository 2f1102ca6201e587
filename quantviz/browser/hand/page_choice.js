// What a person has chosen on the page, shown before the server has answered: a scheme by a control, a cell
// in the panels.

import { makeQuantizer, quantizeTensor, unpacked } from "../arithmetic/quantizing.js";
import { SHARED } from "../page/component.js";
import { kept } from "../page/kept.js";
import { pixelAt } from "../panels/cells.js";
import { unchanged } from "./choice.js";
import { showOnControls } from "./control_looks.js";
import { writePlace } from "./texts.js";

// The most cells that are quantized once beforehand, which has the browser compile what it takes.
const MOST_TRIED = 4096;

export class PageChoice {
  constructor(hand) {
    this.hand = hand;
    this.forget();
  }

  // The number of the last choice that is shown, whose control it is and what that one shows; and the cell
  // that was chosen. Nothing that the server said before it has heard of them counts.
  forget() {
    this.number = 0;
    this.field = this.variant = this.selected = null;
  }

  get waits() {
    return this.number > 0 || this.selected !== null;
  }

  // Show what the choice of a number leads to, where that `holds`: the server is going to say the same.
  answer(field, form, number, holds) {
    const { hand } = this;
    const { calibration, names, scheme: from, schemes } = SHARED.answers;
    if (["cell_row", "cell_col"].includes(field)) return selectPlace(hand.bridge);
    const name = field.replace("range_", "");
    if (name in calibration.numbers && name !== field) return this.calibrate(field, name, form, number);
    const scheme = names[field]?.[form];
    const variant = holds && (hand.data.scheme === from || this.field === field) && schemes[scheme];
    if (!variant || hand.moving || hand.data.far) return this.leave();
    if (scheme !== hand.data.scheme)
      this.show(dataUnder(scheme, variant, hand.data), this.quantizerOf(scheme), { field, number, variant });
    else if (this.waits) this.number = number;
  }

  // The same scheme with another number of its calibration, for which the server alone has a name.
  calibrate(field, name, form, number) {
    const { hand } = this;
    const { id, numbers } = SHARED.answers.calibration;
    const typed = parseFloat(form);
    const isNew = !Number.isNaN(typed) && typed !== numbers[name];
    // The next number that is typed is another one beside this.
    if (isNew) numbers[name] = typed;
    if (!isNew || this.waits || hand.moving || hand.data.far) return this.leave();
    const { current, variants, scheme } = hand.data;
    const { arithmetic, layout } = hand.partsOf(current);
    const own = id === "percentile" ? { arithmetic: atPercentile(arithmetic, numbers.p), layout } : null;
    const data = {
      ...hand.data,
      scheme: `${scheme} ${Object.values(numbers)}`,
      variants: [...variants, variants[current]],
      current: variants.length,
    };
    const calibration = { id, ...numbers };
    if (!this.show(data, own ?? { arithmetic, layout }, { field, number }, own ? null : calibration)) return;
    hand.told.begin();
    hand.told.tell(calibration, data.settings.writing);
  }

  // Show all that follows a hand with other data. What is refused here is left to the server. Returns whether
  // it is shown.
  show(data, quantizer, choice, calibration = null) {
    const { hand } = this;
    const before = { data: hand.data, choice: hand.choice, shown: hand.shown };
    hand.data = data;
    hand.made.set(data.current, quantizer);
    hand.choice = { ...unchanged(data), calibration };
    hand.shown = hand.computed(hand.choice);
    if (hand.shown.refused) {
      Object.assign(hand, before);
      this.leave();
      return false;
    }
    Object.assign(this, choice);
    hand.painted = performance.now();
    // What is chosen is there at once: nothing glides.
    hand.present(false);
    hand.showPanels(true);
    showOnControls(this.variant);
    return true;
  }

  // What a scheme quantizes with, made once for as long as the tensor stays.
  quantizerOf(scheme) {
    const { quantizers, schemes } = SHARED.answers;
    const { program, layout } = schemes[scheme];
    return kept(quantizers, scheme, () => makeQuantizer(unpacked(SHARED.answers)[program], layout));
  }

  // Make what schemes quantize with while the browser rests: a press need not wait for it.
  prepare() {
    const { far, x } = this.hand.data;
    const { quantizers, schemes } = SHARED.answers;
    const left = far ? [] : Object.keys(schemes).filter((scheme) => !quantizers.has(scheme));
    const go = (idle) => {
      while (left.length && schemes === SHARED.answers.schemes && idle.timeRemaining() > 1) {
        const { arithmetic, layout } = this.quantizerOf(left.pop());
        if (x.length <= MOST_TRIED) quantizeTensor(arithmetic, x, layout);
      }
      if (left.length && schemes === SHARED.answers.schemes) requestIdleCallback(go);
    };
    // Safari has no such call.
    if (left.length) window.requestIdleCallback?.(go);
  }

  // Show all that follows a hand of another cell of the Lab's matrix.
  select([row, col]) {
    const { hand } = this;
    const { data, bridge } = hand;
    const { row_edges: rows, col_edges: cols, how } = bridge?.cells ?? {};
    const isLab = data && SHARED.answers?.chart === data.chart;
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
  }

  // Forget what the server had heard of when it sent this.
  hear({ taken, selected }) {
    if (this.number <= taken) this.number = 0;
    if (this.selected === selected) this.selected = null;
    const { waits, variant } = this;
    // What the server has sent with it shows its own scheme.
    if (waits) requestAnimationFrame(() => this.variant === variant && showOnControls(variant));
    else this.forget();
  }

  // Show what the server said last, and whatever it says next: what the page has chosen is not known here, or
  // was refused.
  leave() {
    if (!this.waits) return;
    if (this.number && !this.variant) this.hand.told.takeBack();
    this.forget();
    this.hand.update(this.hand.newest, this.hand.send);
  }
}

// Select the cell whose row and column stand in their fields; none where one is empty.
function selectPlace(bridge) {
  const fields = ["row", "col"].map(
    (name) => document.querySelector(`[data-field=cell_${name}] input`)?.value,
  );
  if (fields.every(Boolean)) bridge?.select(fields.map(Number));
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
    variants: [...data.variants, variant],
    current: data.variants.length,
    found: null,
    handles: { ...data.handles, range: tooth && ranged, zero: tooth && !symmetric },
    with_range: data.pays ? ranged : data.with_range,
    curve: data.curve && ranged ? { ...data.curve, key: scheme } : null,
  };
}
