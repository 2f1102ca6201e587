// The outputs of a small layer as the server computes them, bit for bit: both sides quantized by the
// arithmetic that Python wrote, products in float64, each output summed from the first input channel on.

import { makeLayout } from "./blocks.js";
import { makeArithmetic, quantizeTensor } from "./quantizing.js";

/**
 * Return a side of a layer, ready for use: W or X. `isStatic` says whether scales that lines share are chosen
 * on those that are not held back.
 */
export function makeSide({ program, layout, is_static: isStatic, settled }, rounded = null) {
  // A method, or a search, has chosen its values.
  if (settled) return { settled };
  return { arithmetic: makeArithmetic(program), layout: makeLayout(layout), isStatic, rounded };
}

/**
 * Return the quantized values of a side, as `quantizeTensor` does; the values as they are without a scheme.
 * `held` says of each line whether it is held back. `calibration` takes the place of the scheme's.
 */
export function quantizedSide(side, values, held, calibration = null) {
  if (!side) return { x_hat: values, refused: null };
  if (side.settled) return side.settled;
  // The same for each range that a hand tries.
  if (side.isStatic && side.seen?.of !== values)
    side.seen = { of: values, ...usedOf(values, held, side.layout) };
  const rounded = side.rounded === values;
  return quantizeTensor(side.arithmetic, values, side.layout, { calibration, rounded, seen: side.seen });
}

// The cells that the range of each block is chosen on: those of its lines that are not held back; of a block
// without any, all. And the values that count for the whole: 0 in place of lines held back.
function usedOf(values, held, { numbers, count }) {
  const width = values.length / held.length;
  const isHeld = (i) => held[Math.floor(i / width)];
  const hasUsed = new Uint8Array(count);
  numbers.forEach((b, i) => (hasUsed[b] ||= !isHeld(i)));
  return {
    counted: Uint8Array.from(numbers, (b, i) => !isHeld(i) || !hasUsed[b]),
    whole: values.map((value, i) => (isHeld(i) ? 0 : value)),
  };
}

/** Return quantized values less those before, in float64. */
export function changesOf(values, quantized) {
  const changes = new Float64Array(values.length);
  for (let i = 0; i < values.length; i++) changes[i] = quantized[i] - values[i];
  return changes;
}

/** Return abᵀ in float64, tokens × outputs: each output is summed from the first input channel on. */
function productOf(a, b, [tokens, inputs, outputs]) {
  const sums = new Float64Array(tokens * outputs);
  for (let t = 0; t < tokens; t++) {
    const row = t * inputs;
    for (let o = 0; o < outputs; o++) {
      const col = o * inputs;
      let sum = 0;
      for (let j = 0; j < inputs; j++) sum += a[row + j] * b[col + j];
      sums[t * outputs + o] = sum;
    }
  }
  return sums;
}

/**
 * Return the largest errors of X, W and Y that are float32's own: in each cell `share` of the magnitudes that
 * it sums up, as `NOISE` of Python.
 */
export function noiseOf({ x, w }, shape, share) {
  const [ofX, ofW] = [x, w].map((values) => Float64Array.from(values, Math.abs));
  const y = productOf(ofX, ofW, shape);
  for (const values of [ofX, ofW, y]) for (let i = 0; i < values.length; i++) values[i] *= share;
  return { x: ofX, w: ofW, y };
}

/**
 * Return the product of a layer, the parts of its error, the error, Y and Ŷ: each tokens × outputs, float64.
 * `sides` has X and X̂, tokens × inputs, and W and Ŵ, outputs × inputs, in float32; and the change of the
 * bias that a method makes, if any. Products of sides that are those of `known`, an earlier result with its
 * sides, are not computed again.
 */
export function multiplied(sides, shape, known = null) {
  const { x, xHat, w, wHat, bias, biasChange } = sides;
  const same = (...names) => known && names.every((name) => known[name] === sides[name]);
  const xChange = same("x", "xHat") ? known.xChange : changesOf(x, xHat);
  const wChange = same("w", "wHat") ? known.wChange : changesOf(w, wHat);
  const made = {
    xChange,
    wChange,
    product: same("x", "w") ? known.product : productOf(x, w, shape),
    weights: same("x", "w", "wHat") ? known.weights : productOf(x, wChange, shape),
    inputs: same("x", "xHat", "w") ? known.inputs : productOf(xChange, w, shape),
    cross: same("x", "xHat", "w", "wHat") ? known.cross : productOf(xChange, wChange, shape),
  };
  const count = made.product.length;
  const outputs = shape[2];
  if (biasChange) made.weights = made.weights.map((sum, at) => sum + biasChange[at % outputs]);
  for (const name of ["error", "y", "yHat"]) made[name] = new Float64Array(count);
  for (let at = 0; at < count; at++) {
    // The parts from left to right, as `Cells` of Python; its last one is 0 here.
    made.error[at] = made.weights[at] + made.inputs[at] + made.cross[at] + 0;
    made.y[at] = made.product[at] + bias[at % outputs];
    made.yHat[at] = made.y[at] + made.error[at];
  }
  return made;
}

/**
 * Return the squared error as a share of the squared outputs, over the tokens used and over those held back,
 * and the share of each part of the error over the latter.
 */
export function errorsOf({ product, weights, inputs, cross, error }, held, outputs) {
  const [square, signal] = [
    [0, 0],
    [0, 0],
  ];
  const along = [0, 0, 0];
  for (let token = 0, at = 0; token < held.length; token++) {
    const side = held[token] ? 1 : 0;
    for (let o = 0; o < outputs; o++, at++) {
      square[side] += error[at] * error[at];
      signal[side] += product[at] * product[at];
      if (!side) continue;
      along[0] += weights[at] * error[at];
      along[1] += inputs[at] * error[at];
      along[2] += cross[at] * error[at];
    }
  }
  const ratio = (part, whole) => (part === 0 ? 0 : part / whole);
  const [ofWeights, ofInputs, both] = along.map((part) => ratio(part, square[1]));
  return {
    used: ratio(square[0], signal[0]),
    heldBack: ratio(square[1], signal[1]),
    shares: { weights: ofWeights, inputs: ofInputs, cross: both },
  };
}

/**
 * Return a function of X̂ that gives the output error of the tokens held back, as `errorsOf` does: X̂ alone
 * changes. Sums are in another order than there, for speed.
 */
export function heldError({ x, w, wHat }, held, [, inputs, outputs]) {
  const tokens = [...held.keys()].filter((token) => held[token]);
  const [before, rounded] = [w, wHat].map((values) => Float64Array.from(values));
  const change = new Float64Array(inputs);
  const base = new Float64Array(tokens.length * outputs);
  let signal = 0;
  const product = (values, weights, o) => {
    let [a, b, j] = [0, 0, o * inputs];
    let i = 0;
    for (; i + 1 < inputs; i += 2, j += 2) {
      a += values[i] * weights[j];
      b += values[i + 1] * weights[j + 1];
    }
    return i < inputs ? a + b + values[i] * weights[j] : a + b;
  };
  tokens.forEach((token, t) => {
    change.set(x.subarray(token * inputs, (token + 1) * inputs));
    for (let o = 0; o < outputs; o++) {
      const wanted = product(change, before, o);
      signal += wanted * wanted;
      base[t * outputs + o] = product(change, rounded, o) - wanted;
    }
  });
  return (xHat) => {
    let square = 0;
    tokens.forEach((token, t) => {
      for (let i = 0, at = token * inputs; i < inputs; i++, at++) change[i] = xHat[at] - x[at];
      for (let o = 0; o < outputs; o++) {
        const error = base[t * outputs + o] + product(change, rounded, o);
        square += error * error;
      }
    });
    return square === 0 ? 0 : square / signal;
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

/** Return the values of an input channel of X, one a token. */
export function channelOf(x, channel, [tokens, inputs]) {
  return Float32Array.from({ length: tokens }, (_, t) => x[t * inputs + channel]);
}
