// The words beside the panels while a hand moves something: the sentence of the selected cell, the second
// lines of the numbers. `words` are the server's sentences with their braces; the server writes the same
// strings.

import { bitsOf, digitsFor, plainNumber, roundedTo } from "../panels/numbers.js";
import { medianOf } from "../panels/styles.js";
import { filled } from "../ruler/figures.js";
import { percentage } from "./figures_line.js";

// ---- the sentence of a cell: `sentence` of `cell_words.py` -----------------------------------------------

const SCALING = ["subtract_lo", "divide", "multiply_inverse", "fused"];
// Digits of whole numbers, and the most that a value is written with to tell how it was rounded.
const WHOLE_DIGITS = 8;
const MOST_TELLING = 10;

// The cell in one line; `why` is what `explainCell` gives, `format` the name of its format.
export function sentenceOf(why, { cell, rules, causes }, format, writing) {
  return new Sentence(why, { cell, rules, causes, format }, writing).whole();
}

class Sentence {
  constructor(why, words, writing) {
    Object.assign(this, { why, words, writing });
  }

  say(name, values) {
    return filled(this.words.cell[name], values);
  }

  number(value, digits = 4, plus = "") {
    return plainNumber(value, digits, this.writing, plus);
  }

  exact(value) {
    return Number.isNaN(value) ? this.writing.nan : this.number(value, WHOLE_DIGITS);
  }

  // A number to the right of a sign.
  operand(value, digits = 4) {
    return value < 0 ? `(${this.number(value, digits)})` : this.number(value, digits);
  }

  whole() {
    const { why } = this;
    const { cause, integer, rounding } = why;
    const bits = bitsOf(why.code, why.widths);
    if (cause === "left_out") {
      const code = integer ? this.number(why.value, WHOLE_DIGITS) : bits;
      return this.say("left_out", { x: this.exact(why.x), code, x_hat: this.exact(why.x_hat) });
    }
    const value = this.number(why.value, integer ? WHOLE_DIGITS : 6);
    const parts = [this.arithmetic()];
    if (rounding.nearer === "none") parts.push(this.say("no_number", { code: value }));
    if (cause === "clipped") parts.push(this.say("clamp", { code: value }));
    if (!integer) parts.push(this.say("bits", { bits }));
    const x_hat = this.number(why.x_hat, digitsFor(why.x_hat, why.local_step));
    parts.push(this.say("value", { x_hat }));
    const error = this.number(why.error, 4, "+");
    return parts.join(" ") + this.say("error", { error, cause: this.words.causes[cause] }) + this.ofClamped();
  }

  // The steps up to the rounded value.
  arithmetic() {
    const { why } = this;
    // Of a value so far out only the format's end is worth a word: a float grid that goes on has no such
    // code.
    const beyond = why.rounding.nearer === "none" || (!why.integer && why.cause === "clipped");
    let [words, rounded] = ["", false];
    for (const step of why.steps) {
      const { key, read, made } = step;
      if (SCALING.includes(key)) {
        words += (words && this.words.cell.then) + this.scaled(step);
      } else if (key === "shift" && why.zero_point !== 0) {
        words += this.shifted(step, rounded);
      } else if (key === "lattice" && this.number(read.y) !== this.number(made)) {
        words += ` ${this.say("lattice", { y: this.telling(step) })}`;
      } else if (key.startsWith("round_")) {
        rounded = true;
        if (!beyond) words += ` ${this.landed()}`;
      }
    }
    return words;
  }

  // A step that brings x to units of the scale.
  scaled(step) {
    const { why } = this;
    const { x, y, short, ...others } = step.read;
    const first = y === undefined ? this.number(x, digitsFor(x, why.local_step)) : this.number(y);
    if (step.key === "fused") {
      const { zero_point: zero } = why;
      const sign = zero < 0 ? this.writing.minus : "+";
      const values = { x: first, inverse: this.operand(others.inverse), sign, y: this.telling(step) };
      return this.say("fused", { ...values, zero_point: this.number(Math.abs(zero)) });
    }
    const [other] = Object.keys(others).filter((name) => name !== "inverse");
    if (step.key === "subtract_lo") {
      const lo = this.operand(others[other], digitsFor(others[other], why.local_step));
      return this.say("subtract", { x: first, lo, y: this.number(step.made) });
    }
    // A short block is divided all the same where the convention says so.
    if (step.key === "divide" || short)
      return this.say("divide", { x: first, scale: this.operand(others[other]), y: this.telling(step) });
    return this.say("multiply", { x: first, inverse: this.operand(others.inverse), y: this.telling(step) });
  }

  // The zero point that is added, before rounding or after it.
  shifted(step, rounded) {
    const { y, ...others } = step.read;
    const [[name, zero]] = Object.entries(others);
    return this.say("shift", {
      y: this.number(y, rounded ? WHOLE_DIGITS : 4),
      sign: zero > 0 ? "+" : this.writing.minus,
      zero_point: this.number(Math.abs(zero), step.whole.includes(name) ? WHOLE_DIGITS : 4),
      shifted: rounded ? this.number(step.made, WHOLE_DIGITS) : this.telling(step),
    });
  }

  // Which value of the grid it was rounded to, and by which rule where it was not simply the nearest.
  landed() {
    const { rounding, integer } = this.why;
    const { format, rules } = this.words;
    const value = this.number(rounding.output, integer ? WHOLE_DIGITS : 6);
    const plain = rounding.nearer !== "tie" && rounding.to_the_nearest;
    if (integer) {
      const code = this.say("round", { code: value });
      return plain ? code : code + this.say("by_rule", { rule: rules[rounding.rule] });
    }
    if (plain) return this.say("round_nearest", { format, value });
    return this.say("round_to", { format, value }) + this.say("by_rule", { rule: rules[rounding.rule] });
  }

  // The result of a step with enough digits that the written number rounds to the same value.
  telling({ made: y }) {
    if (y !== this.why.rounding.y || !Number.isFinite(y)) return this.number(y);
    let digits = 4;
    while (digits < MOST_TELLING && !this.tells(y, digits)) digits++;
    return this.number(y, Math.abs(y) < 10 ** digits ? digits : WHOLE_DIGITS);
  }

  // Whether so many digits of y are enough.
  tells(y, digits) {
    const { rounding, around } = this.why;
    const { output } = rounding;
    const read = roundedTo(y, digits);
    const { below, above } = around(read);
    const side = below === above ? "same" : sideOf(read - below, above - read);
    const nearest = { below, above, same: below }[side] ?? output;
    const other = rounding.nearer === "below" ? rounding.below : rounding.above;
    const wanted = rounding.to_the_nearest ? output : other;
    return nearest === wanted && (side === "tie") === rounding.tie && (output === below || output === above);
  }

  // That the block's zero point lies at the end of the codes.
  ofClamped() {
    const { clamped, zero_point: zero } = this.why;
    if (clamped === null) return "";
    const values = {
      wanted: this.number(clamped, WHOLE_DIGITS),
      zero_point: this.number(zero, WHOLE_DIGITS),
    };
    return this.say("zero_point_clamped", values);
  }
}

function sideOf(below, above) {
  if (below === above) return "tie";
  return below < above ? "below" : "above";
}

// ---- the place of a cell's block: `block_words` of `navigation.py` ----------------------------------------

// The rows and columns of a block of a matrix; null of a block that is no rectangle. `block` are all blocks'
// numbers, and `number` is that of this one.
export function blockWords({ block, number, count }, [rows, cols], words) {
  if (count === 1) return words.one;
  const box = { top: rows, left: cols, bottom: -1, right: -1, cells: 0 };
  for (let place = 0; place < block.length; place++) {
    if (block[place] !== number) continue;
    const [row, col] = [Math.floor(place / cols), place % cols];
    box.top = Math.min(box.top, row);
    box.left = Math.min(box.left, col);
    box.bottom = Math.max(box.bottom, row);
    box.right = Math.max(box.right, col);
    box.cells++;
  }
  if (box.cells !== (box.bottom - box.top + 1) * (box.right - box.left + 1)) return null;
  const parts = [
    partWords("row", box.top, box.bottom, rows, words),
    partWords("column", box.left, box.right, cols, words),
  ];
  return parts.filter(Boolean).join(words.and) || words.whole;
}

// The part of an axis from `first` to `last`; "" where it is the whole axis.
function partWords(name, first, last, length, words) {
  if (last - first + 1 === length) return "";
  if (first === last) return filled(words[`at_${name}`], { at: first });
  return filled(words[`at_${name}s`], { at: `${first}–${last}` });
}

// ---- the second lines of the numbers: `tiles` of `tiles.py` ----------------------------------------------

// The text of each number's second line by its key. `found` are x, error, which cells count, moments and
// metrics of a whole tensor; `axes` are those that are looked at, each with the words for one line of it.
export function linesOf(found, { lines, axes }, variant, sqnr, writing) {
  const { moments: m, metrics } = found;
  const number = (value) => plainNumber(value, 3, writing);
  const mse = variant.kind === "integer" ? "mse" : "mse_uneven";
  let first = filled(lines[mse], { steps: number(metrics.rmse_steps), rmse: number(metrics.rmse) });
  const left = found.x.length - m.cells;
  if (left > 0) first = filled(lines.left_out, { line: first, count: left });
  const clipping = metrics.mse === 0 ? 0 : metrics.clipping_mse / metrics.mse;
  return {
    mse: first,
    sqnr: medianLine(found, lines.sqnr, axes, variant.layout.shape, sqnr, number),
    zeroed: filled(lines.zeroed, { count: grouped(m.zeroed), all: grouped(m.cells - m.zeros) }),
    clipped: filled(lines.clipped, { share: percentage(clipping, writing) }),
    bits: filled(lines.bits, { bits: variant.usual_bits }),
  };
}

const COUNTS = new Intl.NumberFormat("en-US");

// A count with commas between thousands.
function grouped(count) {
  return COUNTS.format(count);
}

// The lower one of the medians of the rows' and of the columns' SQNR.
function medianLine(found, template, axes, shape, sqnr, number) {
  let worst = null;
  for (const { axis, one } of axes) {
    const lines = sqnrOfLines(found, shape, axis, sqnr);
    const median = lines.length && medianOf(Float64Array.from(lines).toSorted());
    if (lines.length && (!worst || median < worst.median)) worst = { one, median };
  }
  return worst ? filled(template, { one: worst.one, median: number(worst.median) }) : "";
}

// The SQNR of each index of an axis where x is not all 0; `sqnr` is the metric's formula.
function sqnrOfLines({ x, error, counted }, shape, axis, sqnr) {
  const inner = shape.slice(axis + 1).reduce((product, length) => product * length, 1);
  const [x2, e2] = [new Float64Array(shape[axis]), new Float64Array(shape[axis])];
  for (let i = 0; i < x.length; i++) {
    if (counted && !counted[i]) continue;
    const line = Math.floor(i / inner) % shape[axis];
    x2[line] += x[i] * x[i];
    e2[line] += error[i] * error[i];
  }
  const there = [...x2.keys()].filter((line) => x2[line] > 0);
  return there
    .map((line) => sqnr({ cells: 1, x2: x2[line], e2: e2[line] }))
    .filter((db) => !Number.isNaN(db));
}

// What share of a number counts as no change: the server adds up in another order.
const SAME = 1e-9;
// What a change is written in, and how many of it are 1.
const UNITS = { sqnr: [" dB", 1], zeroed: [" pp", 100], clipped: [" pp", 100], bits: [" bit", 1] };

// The change of each number against the baseline's, and whether it is for the better, null where it is none:
// `change_against` of `tiles.py`. `baseline` has the numbers as text, as JSON has no Inf.
export function metricChanges(metrics, bits, baseline, { changes }, writing) {
  const { mse, sqnr_db: sqnr, zeroed_share: zeroed, clipped_share: clipped } = metrics;
  const now = { mse, sqnr, zeroed, clipped, bits };
  const number = (value, plus) => plainNumber(value, 3, writing, plus);
  const change = ([key, text]) => {
    const [raw, before] = [now[key], Number(text)];
    if (raw === before || Math.abs(raw - before) <= SAME * Math.abs(before))
      return [key, { text: changes.same, better: null }];
    const better = key === "sqnr" ? raw > before : raw < before;
    if (key === "mse") {
      const factor = number(before === 0 ? Infinity : raw / before);
      return [key, { text: filled(changes.times, { factor }), better }];
    }
    const [unit, times] = UNITS[key];
    return [key, { text: number(times * (raw - before), "+") + unit, better }];
  };
  return Object.fromEntries(Object.entries(baseline).map(change));
}
