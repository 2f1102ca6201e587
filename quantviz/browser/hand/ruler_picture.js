// What the ruler shows of a result: the values of one block over the comb of its codes.

import { significant } from "../panels/numbers.js";
import { FEW_TEETH } from "../ruler/places.js";

// Bars of the histogram behind the dots.
const BARS = 64;

// The places of the flattened tensor whose block is `block`, without what is left out.
export function placesOf(result, block) {
  const places = [];
  for (let place = 0; place < result.block.length; place++)
    if (result.block[place] === block && Number.isFinite(result.x[place])) places.push(place);
  return Int32Array.from(places);
}

// The comb of a block's codes: each value once, with what its code is called. `decoded` are the values of
// codes that are no numbers themselves.
export function combOf(levels, decoded, writing) {
  if (!levels) return null;
  const kept = [...levels.values.keys()].filter((i) => levels.values[i] !== levels.values[i + 1]);
  const name = (code) => significant(decoded ? decoded[code] : code, 4, writing);
  return {
    values: Float64Array.from(kept, (i) => levels.values[i]),
    names: kept.map((i) => name(levels.codes[i])),
  };
}

// The ends of the ruler around a result: its block's values, all teeth of few codes, and what stays in sight
// besides, as the server says.
export function domainAround({ x, places, levels }, { bar_edges: edges, rows, room }, range) {
  const values = Array.from(places, (place) => x[place]);
  const comb = levels?.values;
  if (edges) values.push(edges[0], edges.at(-1));
  if (comb?.length <= FEW_TEETH) values.push(comb[0], comb.at(-1));
  // Room to make an outlier of the selected value, or a longer comb.
  if (room) values.push(...values.map((value) => 2 * value));
  // Where the hand began stays in sight, and can be gone back to; so does what is right.
  for (const { tone, levels: teeth, range: own, at } of rows)
    if (tone !== "wrong") values.push(...(own ?? (teeth.length ? [teeth[0], teeth.at(-1)] : [at])));
  return domainOf(values, range);
}

// The ends of the ruler: all values, and a range set wider than these, with room at both sides to drag to.
// They do not follow the comb, or the handles would jump when the hand lets go.
export function domainOf(values, range) {
  let [lo, hi] = [range?.lo ?? Infinity, range?.hi ?? -Infinity];
  for (const value of values) {
    if (value < lo) lo = value;
    if (value > hi) hi = value;
  }
  if (!(lo <= hi)) [lo, hi] = [-1, 1];
  if (lo === hi) [lo, hi] = [Math.min(lo, 0), Math.max(hi, 0)];
  // On both sides of 0 a comb reaches one code further down than up: the same room on both sides shows it.
  if (lo < 0 && hi > 0) {
    const far = 1.17 * Math.max(-lo, hi);
    return [-far, far];
  }
  const room = (hi - lo || 1) * 0.08;
  return [lo - room, hi + room];
}

// How many values lie in each of the bars between the ends.
export function histogramOf(values, [lo, hi]) {
  const edges = Float64Array.from({ length: BARS + 1 }, (_, i) => lo + ((hi - lo) * i) / BARS);
  const counts = new Float64Array(BARS);
  for (const value of values) {
    const bar = Math.floor(((value - lo) / (hi - lo)) * BARS);
    if (bar >= 0 && bar < BARS) counts[bar]++;
  }
  return { edges, counts };
}

// The ends of a block's range; a symmetric scheme reaches as far below 0 as above. Where the scale was given
// they are the ends of the comb; null where that is not known.
export function rangeOf({ params: { lo, hi }, levels }, symmetric) {
  if (Number.isNaN(lo)) {
    if (!levels) return null;
    [lo, hi] = [levels.values[0], levels.values.at(-1)];
    if (symmetric) lo = -hi;
  }
  const far = Math.max(-lo, hi);
  return symmetric ? { lo: -far, hi: far } : { lo, hi };
}
