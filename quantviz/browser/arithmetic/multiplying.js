// The outputs of a small layer as the server computes them, bit for bit: both sides quantized by the
// arithmetic that Python wrote, products in float64, each output summed from the first input channel on.

import { makeLayout } from "./blocks.js";
import { makeArithmetic, quantizeTensor } from "./quantizing.js";

/**
 * Return a side of a layer, ready for use: W or X. `layout` is that of all its lines. `used` is the layout of
 * the lines on which the one scale of all lines is chosen, null where each line has its own or all are used.
 */
export function makeSide({ program, layout, used }) {
  return {
    arithmetic: makeArithmetic(program),
    layout: makeLayout(layout),
    used: used && makeLayout(used),
  };
}

/**
 * Return the quantized values of a side, as `quantizeTensor` does; the values as they are without a scheme.
 * `held` says of each line whether it is held back. `calibration` takes the place of the scheme's.
 */
export function quantizedSide(side, values, held, calibration = null) {
  if (!side) return { x_hat: values, refused: null };
  if (!side.used) return quantizeTensor(side.arithmetic, values, side.layout, { calibration });
  const width = values.length / held.length;
  const used = values.filter((_, i) => !held[Math.floor(i / width)]);
  const found = quantizeTensor(side.arithmetic, used, side.used, { calibration });
  if (found.refused) return found;
  const params = { id: "params", ...found.params };
  const result = quantizeTensor(side.arithmetic, values, side.layout, { calibration: params });
  return { ...result, blocks: { ...result.blocks, lo: found.blocks.lo, hi: found.blocks.hi } };
}

/**
 * Return the product of a layer, the parts of its error, the error, Y and Ŷ: each tokens × outputs, float64.
 * X and X̂ are tokens × inputs, W and Ŵ outputs × inputs, in float32.
 */
export function multiplied({ x, xHat, w, wHat, bias }, [tokens, inputs, outputs]) {
  const names = ["product", "weights", "inputs", "cross", "error", "y", "yHat"];
  const made = Object.fromEntries(names.map((name) => [name, new Float64Array(tokens * outputs)]));
  const xChange = Float64Array.from(x, (value, i) => xHat[i] - value);
  const wChange = Float64Array.from(w, (value, i) => wHat[i] - value);
  for (let t = 0; t < tokens; t++) {
    for (let o = 0; o < outputs; o++) {
      let [product, ofWeights, ofInputs, cross] = [0, 0, 0, 0];
      const [row, col] = [t * inputs, o * inputs];
      for (let j = 0; j < inputs; j++) {
        const [a, b] = [x[row + j], w[col + j]];
        const [da, db] = [xChange[row + j], wChange[col + j]];
        product += a * b;
        ofWeights += a * db;
        ofInputs += da * b;
        cross += da * db;
      }
      const at = t * outputs + o;
      made.product[at] = product;
      made.weights[at] = ofWeights;
      made.inputs[at] = ofInputs;
      made.cross[at] = cross;
      // The parts from left to right, as `Cells` of Python; its last one is 0 here.
      made.error[at] = ofWeights + ofInputs + cross + 0;
      made.y[at] = product + bias[o];
      made.yHat[at] = made.y[at] + made.error[at];
    }
  }
  return made;
}

/**
 * Return the squared error as a share of the squared outputs, over the tokens used and over those held back,
 * and the share of each part of the error over the latter.
 */
export function errorsOf(made, held, outputs) {
  const sums = { square: [0, 0], signal: [0, 0], weights: [0, 0], inputs: [0, 0], cross: [0, 0] };
  made.error.forEach((error, at) => {
    const side = held[Math.floor(at / outputs)] ? 1 : 0;
    sums.square[side] += error * error;
    sums.signal[side] += made.product[at] * made.product[at];
    for (const part of ["weights", "inputs", "cross"]) sums[part][side] += made[part][at] * error;
  });
  const ratio = (part, whole) => (part === 0 ? 0 : part / whole);
  return {
    used: ratio(sums.square[0], sums.signal[0]),
    heldBack: ratio(sums.square[1], sums.signal[1]),
    shares: Object.fromEntries(
      ["weights", "inputs", "cross"].map((part) => [part, ratio(sums[part][1], sums.square[1])]),
    ),
  };
}

/** Return the largest magnitude of some values. */
export function largestOf(values) {
  let largest = 0;
  for (let i = 0; i < values.length; i++) largest = Math.max(largest, Math.abs(values[i]));
  return largest;
}

/**
 * Return X with another size of an input channel: `base` are its values, one a token, `size` is their largest
 * magnitude. `Changes` of Python has the same arithmetic.
 */
export function withChannel(x, base, channel, size, inputs) {
  const largest = largestOf(base);
  if (!largest) return x;
  const changed = x.slice();
  base.forEach((value, t) => (changed[t * inputs + channel] = value * (size / largest)));
  return changed;
}
