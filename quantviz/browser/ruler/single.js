// A ruler of one value alone: where the value lands while a hand moves it. Ties are the server's to decide.

import { nearestLevel } from "./comb.js";

// The part of the axis in whose middle x stays without a new axis.
const INNER = 0.8;

// The picture with its value at `value`, landed on the nearest level; `picture` itself where nothing moved.
export function withValue(picture, value) {
  if (value === picture.values[0]) return picture;
  const [low, high] = picture.single.held;
  const clipped = value < low || value > high;
  return {
    ...picture,
    values: Float64Array.of(value),
    landed: Float64Array.of(picture.levels[nearestLevel(picture.levels, value)]),
    clipped: Uint8Array.of(clipped ? 1 : 0),
  };
}

// The new picture on the axis of the one before it, where that still shows x well.
export function onSameAxis(picture, before) {
  if (!picture.single?.part || !before?.single?.part || !sameNumbers(picture.levels, before.levels))
    return picture;
  const [lo, hi] = before.domain;
  const margin = ((1 - INNER) / 2) * (hi - lo);
  const x = picture.values[0];
  return x >= lo + margin && x <= hi - margin ? { ...picture, domain: before.domain } : picture;
}

function sameNumbers(some, others) {
  return some.length === others.length && some.every((each, i) => each === others[i]);
}
