// The error against the range: each point is a real quantization with that range.

import { SHARED } from "../page/component.js";
import { rangeOf } from "./ruler_picture.js";

// Ranges up to that of all values, and wider ones: as `analysis/clipping_curve.py` has them.
const CURVE_STEPS = 64;
const BEYOND = 8;
// The most points of a curve that goes on to the end of the ruler.
const MOST_POINTS = 320;
// With more cells the error's curve waits for the hand to let go.
const MOST_CURVE = 1100;

// Mean squared error of rounding and of clipping, with ranges that grow from 0 to the ends of the values and
// beyond. Only cells that count are looked at: `counts(place)`. `quantized` gives a result for a range;
// points that it refuses are left out. In a lesson the curve goes on to `reach`, the end of the ruler.
export function errorCurve(quantized, x, symmetric, counts, reach = 0) {
  let [least, most] = [Infinity, -Infinity];
  for (let place = 0; place < x.length; place++) {
    if (!Number.isFinite(x[place]) || !counts(place)) continue;
    [least, most] = [Math.min(least, x[place]), Math.max(most, x[place])];
  }
  if (symmetric) [least, most] = [-Math.max(-least, most), Math.max(-least, most)];
  // As far as all values lie on one side of 0, ranges grow from the nearest of them, or to it.
  const start = most <= 0 ? least : Math.max(least, 0);
  const farthest = Math.floor((CURVE_STEPS * (reach - start)) / (most - start)) || 0;
  const ranges = [];
  for (let k = 1; k <= Math.max(CURVE_STEPS + BEYOND, Math.min(farthest, MOST_POINTS)); k++)
    ranges.push([start + (k / CURVE_STEPS) * (least - start), start + (k / CURVE_STEPS) * (most - start)]);
  return curveOver(ranges, 1, quantized, counts);
}

// The same against the lower end alone, from one end of the ruler to the upper end `hi`, which stays.
export function lowerEndCurve(quantized, counts, [from], hi) {
  const points = CURVE_STEPS + BEYOND;
  const ranges = Array.from({ length: points }, (_, k) => [from + (k / points) * (hi - from), hi]);
  return curveOver(ranges, 0, quantized, counts);
}

// The points of a curve over `ranges`, each at that of its ends which `end` names, 0 or 1.
function curveOver(ranges, end, quantized, counts) {
  const curve = { lo: [], at: [], rounding: [], clipping: [] };
  for (const [lo, hi] of ranges.map((range) => range.map(Math.fround))) {
    if (!(lo < hi)) continue;
    const result = quantized({ id: "manual_range", lo, hi });
    if (result.refused) continue;
    const parts = errorParts(result, counts);
    curve.lo.push(lo);
    curve.at.push(end ? hi : lo);
    curve.rounding.push(parts.rounding);
    curve.clipping.push(parts.clipping);
  }
  for (const name of Object.keys(curve)) curve[name] = Float64Array.from(curve[name]);
  return curve;
}

// The points of a hand's curve under a choice; of a large tensor the server's, at first estimates.
export function curvePoints(hand, choice) {
  const { far, curve, symmetric } = hand.data;
  if (far) return hand.found?.points ?? curve.estimate;
  const { x } = hand.shown;
  const counts = countedBy(hand);
  const quantized = (calibration) => hand.quantized(choice, calibration, x);
  if (curve.lower)
    return lowerEndCurve(quantized, counts, hand.domain, rangeOf(hand.shown, hand.data.symmetric).hi);
  return errorCurve(quantized, x, symmetric, counts, curve.key ? 0 : hand.domain[1]);
}

// Take what the server found out about a hand's curve after the ruler was shown.
export function completeCurve(hand) {
  if (!hand.curve) return;
  hand.found = foundOf(hand.data);
  if (hand.data.far) hand.curve = curvePoints(hand, hand.choice);
  if (!hand.moving) hand.showRuler();
}

// Let a hand's curve follow what the hand moves beside the range.
export function curveFollows(hand) {
  if (!hand.curve || hand.data.x.length > MOST_CURVE) return;
  hand.curve = curvePoints(hand, { ...hand.choice, calibration: null });
}

// Where a hand's range is on the curve, and the error that it has; of a large tensor only the curve has that.
export function placeOnCurve(hand) {
  const now = rangeOf(hand.shown, hand.data.symmetric)?.hi;
  if (hand.data.far || !hand.curve) return { now };
  const { rounding, clipping } = errorParts(hand.shown, countedBy(hand));
  return { now, mse: rounding + clipping };
}

// Whether the curve's error is that of a place: of all, or of the selected cell's block.
function countedBy({ data, shown: { block } }) {
  return data.curve.block ? (place) => block[place] === block[data.selected] : () => true;
}

// The mean squared error in two parts: of cells within the range, and of clipped ones.
function errorParts({ x, error, clipped }, counts) {
  let [rounding, clipping, count] = [0, 0, 0];
  for (let i = 0; i < error.length; i++) {
    if (!Number.isFinite(x[i]) || !counts(i)) continue;
    count++;
    const squared = error[i] * error[i];
    if (clipped[i]) clipping += squared;
    else rounding += squared;
  }
  return { rounding: rounding / (count || 1), clipping: clipping / (count || 1) };
}

// What was found out about a hand's curve after the ruler was shown: marks, and of a large tensor its exact
// points; null while it is of something else.
export function foundOf({ chart, curve }) {
  const found = SHARED.curves.get(chart);
  return curve && found?.key === curve.key ? found : null;
}

// What the ruler is told of a curve. Marks and other bits' curves are of what the server knows: they are left
// out while the hand holds something else.
// `place` says where the range is, and its error where that is known.
export function curveToShow(points, found, data, choice, place) {
  if (!points) return null;
  const { ghosts, block, key } = data.curve;
  const present = choice.variant === data.current && !choice.edits.size;
  const bits = data.variants[choice.variant].bits_label;
  return {
    ...points,
    ...place,
    // In a lesson a drag goes by it.
    half: key === "",
    lower: data.curve.lower,
    marks: (present && found?.marks) || [],
    ghosts:
      choice.edits.size || (block && !present) ? [] : ghosts.filter((ghost) => `${ghost.bits}` !== bits),
    takes: Boolean(data.handles.range),
  };
}
