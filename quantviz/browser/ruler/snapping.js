// Where a knob snaps to: teeth, the midpoints between them, 0. Only where a question is about these, which a
// finger does not hit by itself.

// At most so many pixels away, and so large a share of the way to the next such place; but from as far as a
// finger misses (`quantviz/teaching/lessons/finger.py`), up to the middle between two such places.
const PULL = 9;
const SHARE = 0.3;
const FINGER = 4;

// The places that the selected value snaps to; `snap` names kinds of them.
export function valueSnaps({ snap, levels }) {
  const found = [];
  if (!snap?.length) return found;
  if (snap.includes("zero")) found.push(0);
  for (let i = 0; i < (levels?.length ?? 0); i++) {
    if (snap.includes("teeth")) found.push(levels[i]);
    if (snap.includes("midpoints") && i) found.push((levels[i - 1] + levels[i]) / 2);
  }
  return found.toSorted((a, b) => a - b);
}

// The places that an end of the range snaps to.
export function endSnaps({ snap }) {
  return snap?.includes("zero") ? [0] : [];
}

// The place that a knob at `value` snaps to, or `value` itself. `perValue` is in pixels.
export function snapped(value, places, perValue) {
  let best = value;
  let nearest = PULL;
  places?.forEach((place, i) => {
    const away = Math.abs(place - value) * perValue;
    const next = Math.min(place - (places[i - 1] ?? -Infinity), (places[i + 1] ?? Infinity) - place);
    const reach = Math.max(SHARE * next * perValue, FINGER);
    if (away <= nearest && away <= reach) [best, nearest] = [place, away];
  });
  return best;
}
