// The way from one comb to another under the same values, where the page chose the other one. Pure functions.

// Milliseconds that teeth take from their old places to their new ones.
export const GLIDE = 400;

// Whether `picture` shows the same values as the one before it, over other teeth.
export function isAnotherComb(before, picture) {
  if (!before?.levels?.length || !picture.levels?.length || !picture.values.length) return false;
  return (
    before.selected === picture.selected &&
    areEqual(before.values, picture.values) &&
    !areEqual(before.levels, picture.levels)
  );
}

// The picture at `t` of the way, from 0 to 1. Of unequally many teeth those of the same share of the rank
// belong together: some start or end in one place.
export function pictureBetween(before, picture, t) {
  const eased = t * t * (3 - 2 * t);
  const between = (from, to) => from + (to - from) * eased;
  const last = Math.max(before.levels.length, picture.levels.length) - 1;
  const placeIn = (levels, k) => Math.round(((levels.length - 1) * k) / Math.max(last, 1));
  const ranks = Array.from({ length: last + 1 }, (_, k) => k);
  const places = ranks.map((k) => placeIn(picture.levels, k));
  const { range } = picture;
  return {
    ...picture,
    gliding: true,
    domain: picture.domain.map((end, k) => between(before.domain[k], end)),
    levels: Float64Array.from(ranks, (k) =>
      between(before.levels[placeIn(before.levels, k)], picture.levels[places[k]]),
    ),
    codes: places.map((place) => picture.codes[place]),
    zero: places.indexOf(picture.zero),
    landed: picture.landed.map((value, i) => between(before.landed[i], value)),
    range: range &&
      before.range && { lo: between(before.range.lo, range.lo), hi: between(before.range.hi, range.hi) },
  };
}

export function areEqual(some, others) {
  return some.length === others.length && some.every((each, i) => each === others[i]);
}
