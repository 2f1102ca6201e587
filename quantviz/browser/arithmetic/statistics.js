// What a calibration asks of each block: its ends, a percentile, the mean magnitude. The answers have the
// bits of those of Python, `Blocks` of `quantviz/tensors/blocks.py`.

import { paddingOf } from "./blocks.js";

/**
 * Return an answer a block for each of `asks`, of `round`'s precision. `counted` is which cells count, none
 * where all of them do.
 */
export function answersOf(asks, x, counted, layout, round) {
  const ends = new Map();
  return asks.map((ask) => {
    const { what, magnitudes } = ask;
    if (what === "lowest" || what === "highest") {
      if (!ends.has(magnitudes)) {
        ends.set(magnitudes, endsOf(x, counted, layout, magnitudes));
      }
      return ends.get(magnitudes)[what];
    }
    const answer = what === "percentile" ? percentile : meanMagnitude;
    return Float64Array.from({ length: layout.count }, (_, b) => round(answer(ask, x, counted, layout, b)));
  });
}

/** Return smallest and largest value of each block; of no cells that count, 0. */
function endsOf(x, counted, layout, magnitudes) {
  const { count, order, starts } = layout;
  const lowest = new Float64Array(count);
  const highest = new Float64Array(count);
  for (let b = 0; b < count; b++) {
    const padded = paddingOf(layout, b) > 0;
    let low = padded ? 0 : Infinity;
    let high = padded ? 0 : -Infinity;
    for (let k = starts[b]; k < starts[b + 1]; k++) {
      if (!counted || counted[order[k]]) {
        const value = magnitudes ? Math.abs(x[order[k]]) : x[order[k]];
        low = Math.min(low, value);
        high = Math.max(high, value);
      }
    }
    lowest[b] = low > high ? 0 : low;
    highest[b] = low > high ? 0 : high;
  }
  return { lowest, highest };
}

/** Return the first element of largest magnitude of each block, with its sign; of no cells that count, 0. */
export function extremesOf(x, counted, layout) {
  const { count, order, starts } = layout;
  const extremes = new Float64Array(count);
  for (let b = 0; b < count; b++) {
    let largest = -1;
    for (let k = starts[b]; k < starts[b + 1]; k++) {
      const value = x[order[k]];
      const magnitude = Math.abs(value);
      if (magnitude > largest && (!counted || counted[order[k]])) {
        largest = magnitude;
        extremes[b] = value;
      }
    }
  }
  return extremes;
}

/** Return the values of a block that count. */
function valuesOf(x, counted, layout, b, magnitudes) {
  const values = new Float32Array(layout.starts[b + 1] - layout.starts[b]);
  let made = 0;
  for (let k = layout.starts[b]; k < layout.starts[b + 1]; k++) {
    const i = layout.order[k];
    if (!counted || counted[i]) {
      values[made++] = magnitudes ? Math.abs(x[i]) : x[i];
    }
  }
  return values.subarray(0, made);
}

/** Return a percentile of a block, interpolated linearly between two values. */
function percentile({ percent, magnitudes }, x, counted, layout, b) {
  const ordered = valuesOf(x, counted, layout, b, magnitudes).toSorted();
  // The zeros that fill a block come after its negative values; they are counted, not made.
  const zeros = paddingOf(layout, b);
  const last = ordered.length + zeros - 1;
  if (last < 0) return 0;
  let negative = 0;
  while (negative < ordered.length && ordered[negative] < 0) {
    negative++;
  }
  const at = (place) =>
    place < negative ? ordered[place] : place < negative + zeros ? 0 : ordered[place - zeros];
  const place = (last * percent) / 100;
  const below = Math.floor(place);
  const lower = at(below);
  const upper = at(Math.min(below + 1, last));
  return lower + (upper - lower) * (place - below);
}

/** Return the mean of |x| of a block: the exact sum, rounded once, over the count. */
function meanMagnitude(_, x, counted, layout, b) {
  const values = valuesOf(x, counted, layout, b, true);
  // The sum of no values is -0.
  return (0 + Math.sumPrecise(values)) / Math.max(values.length + paddingOf(layout, b), 1);
}
