// Quantize a tensor by the arithmetic that Python wrote: the same codes, scales and values as `quantize`
// gives, bit for bit, and refused where it refuses.

import { indexIn } from "../page/index_in.js";
import { isShort, makeLayout } from "./blocks.js";
import { ROUNDING } from "./rounding.js";
import { answersOf, extremesOf } from "./statistics.js";

const SINGLE_MAX = (2 - 2 ** -23) * 2 ** 127;
const SINGLE_TINY = 2 ** -149;
/** Whole numbers up to here are exact in float32, zero points included. */
const EXACT_INTEGER = 2 ** 24;

/**
 * Functions that were made of a text, so that programs that share it share what the browser compiled. A page
 * that may not make any brings them along, each by a name that stands in the text's place.
 */
export const MADE = new Map();

/** Return the parts of a program that Python packed, with the numbers they read. */
export function makeParts(packed) {
  if (!MADE.has(packed.text)) {
    MADE.set(packed.text, new Function(`"use strict"; return ${packed.text};`)());
  }
  const numbers = (values) => Float64Array.from(values, Number);
  return MADE.get(packed.text)(
    ROUNDING,
    numbers(packed.floats),
    numbers(packed.integers),
    packed.integers.map(BigInt),
    numbers(packed.tables),
  );
}

/** Return a scheme's arithmetic, of what `write_program` of Python packed. */
export function makeArithmetic(packed) {
  return { parts: makeParts(packed), facts: packed.facts };
}

/** Return what a scheme quantizes a tensor with: its arithmetic, and its layout ready for use. */
export function makeQuantizer(program, layout) {
  return { arithmetic: makeArithmetic(program), layout: makeLayout(layout) };
}

/** Return the programs that `packed_together` of Python packed, each as `makeArithmetic` takes it. */
export function unpacked(together) {
  return together.programs.map((program) => ({ ...program, text: together.texts[program.text] }));
}

/**
 * Quantize `x`, a Float32Array, in a layout of `makeLayout`. `choice.calibration` takes the place of the
 * scheme's: `{id: "manual_range", lo, hi}`, `{id: "given", scale, zero_point}`, `{id: "ranges", lo, hi}`, an
 * end a block, or `{id: "params", ...}`, all that codes are made with, one number a block each.
 * `choice.seen` has the values that scales are chosen on, where these are not all: `counted`, whether a cell
 * is one for its block, and `whole`, the values that a scale over all blocks is chosen on. `choice.rounded`:
 * all values have the input's dtype already. Where Python would
 * refuse, `refused` has the key and the numbers of its error, and there are no codes.
 */
export function quantizeTensor(arithmetic, x, layout, choice = {}) {
  const { parts, facts } = arithmetic;
  const dtype = choice.rounded ? null : facts.input;
  const input = finiteInput(x, { ...facts, input: dtype }, layout);
  if (input.refused) return { refused: input.refused };
  const blocks = {
    count: layout.count,
    lo: new Float64Array(layout.count).fill(NaN),
    hi: new Float64Array(layout.count).fill(NaN),
  };
  const params = {};
  for (const name of facts.params) {
    params[name] = new Float64Array(layout.count);
  }
  const { seen } = choice;
  const tensor = seen
    ? { x: input.x, counted: seen.counted, layout, absmax: absmaxOf(inDtype(seen.whole, dtype)) }
    : { ...input, layout, absmax: absmaxOf(input.x) };
  const set = choice.calibration ?? (facts.given ? { id: "given", ...facts.given } : null);
  const given = set?.id === "given" || set?.id === "params";
  const refused = given
    ? paramsGiven(arithmetic, tensor, set, params)
    : paramsOfRanges(arithmetic, tensor, set, blocks, params);
  if (refused) return { refused };
  const { cells, count, order, starts } = layout;
  const result = {
    q: new Float64Array(cells),
    x_hat: new Float32Array(cells),
    error: new Float32Array(cells),
    clipped: new Uint8Array(cells),
    step: new Float64Array(cells),
  };
  const run = (given && parts.cells_given) || parts.cells;
  for (let b = 0; b < count; b++) {
    run(input.x, order, starts[b], starts[b + 1], params, b, result);
  }
  return (
    refusedInfinite(tensor, result, params) ?? {
      ...result,
      x: input.x,
      counted: input.counted,
      block: layout.numbers,
      blocks: { ...blocks, scale: params.scale, zero_point: params.zero_point },
      params,
      given,
      codes: facts.codes,
      refused: null,
    }
  );
}

/** Return what is known of a block of a result, for `levelsOf`. */
export function paramsOf(result, b) {
  const own = { given: result.given };
  for (const name of Object.keys(result.params)) {
    own[name] = result.params[name][b];
  }
  return own;
}

/**
 * Return the value of every code of a block, smallest first, those that are no number left out; none of a
 * format of more than 8 bits. `params` are those of `paramsOf`.
 */
export function levelsOf({ parts, facts }, params) {
  if (!facts.levels) return null;
  const [first, last] = facts.levels;
  const codes = Float64Array.from({ length: last - first + 1 }, (_, i) => first + i);
  const values = new Float64Array(codes.length);
  const known = Object.fromEntries(facts.params.map((name) => [name, [params[name]]]));
  ((params.given && parts.values_given) || parts.values)(known, 0, codes, values);
  const places = [...codes.keys()].filter((i) => Number.isFinite(values[i]));
  places.sort((i, j) => values[i] - values[j]);
  return {
    codes: Float64Array.from(places, (i) => codes[i]),
    values: Float64Array.from(places, (i) => values[i]),
  };
}

/** Return the values rounded to the half-precision dtype of the input; themselves where it has none. */
function inDtype(x, dtype) {
  const round = { float16: ROUNDING.toHalf, bfloat16: ROUNDING.toBrain }[dtype];
  return round ? x.map((value) => round(value)) : x;
}

/** Return the values that are quantized, and which of them count; or why there are none. */
function finiteInput(given, { input: dtype, nonfinite: rule }, layout) {
  const x = inDtype(given, dtype);
  let bad = 0;
  let first = -1;
  for (let i = 0; i < x.length; i++) {
    if (!Number.isFinite(x[i])) {
      bad += 1;
      first = first < 0 ? i : first;
    }
  }
  if (bad === 0) return { x, counted: null };
  if (rule === "refuse") {
    const where = { value: given[first], index: indexIn(layout.shape, first), count: bad };
    // What was finite before has no number in half precision.
    const beyond = Number.isFinite(given[first]);
    return {
      refused: beyond ? { key: "input_beyond_dtype", dtype, ...where } : { key: "input_nonfinite", ...where },
    };
  }
  return { x, counted: Uint8Array.from(x, Number.isFinite) };
}

/** Return the largest finite |x|; 0 where none is finite. */
export function absmaxOf(x) {
  let largest = 0;
  for (let i = 0; i < x.length; i++) {
    const magnitude = Math.abs(x[i]);
    largest = magnitude > largest && magnitude < Infinity ? magnitude : largest;
  }
  return largest;
}

/** Put the parameters of each block's range into `params`, and the ranges into `blocks`; or say why not. */
function paramsOfRanges({ parts, facts }, { x, counted, layout, absmax }, set, blocks, params) {
  const { lo, hi, count } = blocks;
  const round = facts.range_single ? Math.fround : Number;
  const extremes = extremesOf(x, counted, layout);
  if (set) {
    if (set.id === "manual_range" && !(set.lo < set.hi)) {
      return { key: "manual_range_order", lo: set.lo, hi: set.hi };
    }
    for (let b = 0; b < count; b++) {
      lo[b] = round(set.id === "ranges" ? set.lo[b] : set.lo);
      hi[b] = round(set.id === "ranges" ? set.hi[b] : set.hi);
    }
  } else if (facts.asks) {
    const answers = answersOf(facts.asks, x, counted, layout, round);
    for (let b = 0; b < count; b++) {
      parts.found(answers, blocks, b);
    }
  } else {
    // The range is searched for, which takes Python.
    return { key: "range_is_searched" };
  }
  let width = 0;
  for (let b = 0; b < count; b++) {
    const own = facts.mode === "symmetric" ? 2 * Math.max(Math.abs(lo[b]), Math.abs(hi[b])) : hi[b] - lo[b];
    width = own > width ? own : width;
  }
  if (width > SINGLE_MAX) return { key: "range_beyond_float32", width, largest: SINGLE_MAX };
  let largest = 0;
  for (let b = 0; b < count; b++) {
    const zero = Math.abs(parts.range(lo[b], hi[b], extremes[b], absmax, isShort(layout, b), params, b));
    largest = zero > largest ? zero : largest;
  }
  return facts.zero_is_code && largest > EXACT_INTEGER
    ? { key: "zero_point_too_large", got: largest, largest: EXACT_INTEGER }
    : null;
}

/** Return the zero point that scale and zero point set by hand mean. */
function ownZeroPoint(facts, scale, zero) {
  if (facts.mode === "symmetric") {
    // Codes are counted from the lower end of the range, or from the middle.
    return facts.steps_below ? Math.fround(-scale * facts.steps_below) : facts.symmetric_zero_point;
  }
  return facts.zero_whole ? zero : Math.fround(zero);
}

/** Put the parameters that scale and zero point set by hand give into `params`; or say why not. */
function paramsGiven({ parts, facts }, { layout, absmax }, set, params) {
  if (set.id === "params") {
    for (const name of facts.params) {
      params[name].set(set[name]);
    }
    return null;
  }
  const { scale, zero_point: zero = 0 } = set;
  if (!(scale >= SINGLE_TINY && scale <= SINGLE_MAX)) {
    return { key: "scale_not_positive", got: scale };
  }
  const fits = facts.zero_whole
    ? zero === Math.round(zero) && Math.abs(zero) <= EXACT_INTEGER
    : Number.isFinite(Math.fround(zero));
  if (!fits) return { key: "zero_point_not_integer", got: zero, largest: EXACT_INTEGER };
  const symmetric = facts.mode === "symmetric";
  if (symmetric && zero !== 0 && zero !== facts.symmetric_zero_point) {
    return { key: "zero_point_in_symmetric", got: zero };
  }
  const own = ownZeroPoint(facts, scale, zero);
  for (let b = 0; b < layout.count; b++) {
    parts.given(facts.scale_single ? Math.fround(scale) : scale, own, absmax, isShort(layout, b), params, b);
  }
  return null;
}

/** Return the refusal of a finite cell that came to no finite value or error, if there is one. */
function refusedInfinite({ x, layout }, { x_hat, error }, { scale }) {
  for (let i = 0; i < x.length; i++) {
    // What is finite is 0 off itself.
    if (error[i] - error[i] + (x_hat[i] - x_hat[i]) !== 0 && Number.isFinite(x[i])) {
      const b = layout.numbers[i];
      const where = { index: indexIn(layout.shape, i), block: indexIn(layout.grid, b) };
      if (Number.isNaN(scale[b])) return { refused: { key: "scale_is_nan", ...where } };
      const refused =
        scale[b] === 0
          ? { key: "scale_is_zero", ...where }
          : { key: "value_beyond_float32", value: x_hat[i], ...where };
      return { refused };
    }
  }
  return null;
}
