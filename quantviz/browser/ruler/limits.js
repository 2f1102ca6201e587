// How far a hand can move what is on the axis, so that no tooth of a comb of few leaves it.

import { FEW_TEETH } from "./places.js";

// Beyond which values x is clipped: half a gap after the last teeth; without a comb, beyond the range.
export function clippedBeyond({ levels, range }) {
  if (!(levels?.length > 1)) return range ?? { lo: -Infinity, hi: Infinity };
  const last = levels.length - 1;
  return {
    lo: levels[0] - (levels[1] - levels[0]) / 2,
    hi: levels[last] + (levels[last] - levels[last - 1]) / 2,
  };
}

// The limits, in whole units, of both ends of the range, of the zero point's tooth, of any other tooth by
// where it stands, and of the selected value. Without a comb of few teeth in view these are the ends of the
// axis. `zero` is the index of the zero point's tooth.
export function teethLimits(picture, axis, unit, zero) {
  const { levels } = picture;
  const ends = { least: axis.lo, most: axis.hi };
  const [first, last] = [levels?.[0], levels?.at(-1)];
  const few = levels?.length > 1 && levels.length <= FEW_TEETH;
  if (!few || first < axis.lo || last > axis.hi)
    return { lo: axis.lo, hi: axis.hi, zero: ends, value: ends, tooth: (x) => (x > 0 ? axis.hi : axis.lo) };
  const { lo, hi } = rangeLimits(picture, axis);
  const range = { lo: -wholeUnits(-lo, unit), hi: wholeUnits(hi, unit) };
  // Where a hand has brought the zero point's tooth: the comb went along, and has the rest of the way left.
  const at = levels[zero] ?? 0;
  // By how much all teeth can move away from 0.
  const factor = Math.min(last > 0 ? axis.hi / last : Infinity, first < 0 ? axis.lo / first : Infinity);
  return {
    ...range,
    // It goes by whole codes.
    zero: {
      least: at - wholeUnits(Math.max(first - axis.lo, 0), levels[1] - first),
      most: at + wholeUnits(Math.max(axis.hi - last, 0), levels[1] - first),
    },
    value: reachesEnds(picture) ? { least: range.lo, most: range.hi } : ends,
    tooth: (x) => x * Math.max(factor, 1),
  };
}

// The number of units that fits, as a number; the last bit of a float must not cost one.
function wholeUnits(far, unit) {
  return Math.floor(far / unit + 1e-9) * unit;
}

// How far the range can reach: symmetric, the comb by as much farther as it does now; else by half a step at
// most, which the rounding of the zero point can move it.
function rangeLimits({ range, levels, symmetric }, axis) {
  if (!range) return { lo: axis.lo, hi: axis.hi };
  if (symmetric) {
    const beyond = Math.max(-levels[0], levels.at(-1), range.hi) / range.hi;
    const far = Math.min(-axis.lo, axis.hi) / beyond;
    return { lo: -far, hi: far };
  }
  const slack = 0.5 / (levels.length - 1);
  return {
    lo: (axis.lo + slack * range.hi) / (1 + slack),
    hi: (axis.hi + slack * range.lo) / (1 + slack),
  };
}

// Whether the range ends at the values' own ends, so that a value beyond them takes the comb along.
function reachesEnds({ range, values, symmetric }) {
  if (!range) return false;
  let [lo, hi] = [Infinity, -Infinity];
  for (const value of values) {
    lo = Math.min(lo, value);
    hi = Math.max(hi, value);
  }
  const near = (some, other) => Math.abs(some - other) <= 1e-5 * Math.abs(other);
  return symmetric ? near(range.hi, Math.max(-lo, hi)) : near(range.lo, lo) || near(range.hi, hi);
}
