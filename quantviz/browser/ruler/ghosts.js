// The curves of other bits behind the curve of the error: thin, dashed, and only estimates.

import { filled } from "./figures.js";
import { significant } from "../panels/numbers.js";
import { WEIGHTS } from "./weights.js";

export const DASH = [4, 3];
// Pixels above the ruler at which a line that runs off its top ends.
const LIMIT = 1000;

// Ghosts meet the curve where it covers all values, which the longest of them say: their errors are many
// times as large or small, and what is compared is where each is least.
export function paintGhosts(ruling, { at, both, scale, top }) {
  const { picture, axis, context, colors } = ruling;
  const found = [];
  context.setLineDash(DASH);
  context.lineWidth = 1;
  context.strokeStyle = colors.muted;
  for (const ghost of picture.curve.ghosts ?? []) {
    const own = errorAt(ghost.at, ghost.error, ghost.whole);
    const times = own / errorAt(at, both, ghost.whole);
    if (!(times > 0) || !Number.isFinite(times)) continue;
    const path = pathOf(ghost, axis, scale, times);
    context.stroke(path.drawn);
    found.push({ ghost, times, places: path.places.filter(([, y]) => y >= top) });
  }
  context.setLineDash([]);
  return found;
}

// The name of each ghost on its curve, with how many times larger or smaller its error is there.
export function askForGhostWords(ruling) {
  const { words, writing, colors, bands, marks } = ruling;
  const least = bands.curve - 2;
  for (const { ghost, times, places } of marks.curve.ghosts) {
    const { bits } = ghost;
    const factor = significant(times > 1 ? times : 1 / times, 2, writing);
    const told = `${filled(words.ghost, { count: bits })} ${times > 1 ? "×" : "÷"}${factor}`;
    const label = bands.narrow ? `${bits}` : told;
    const fitsBeside = (x, y, align) => {
      const { left, right } = ruling.boxOf(label, x, y, align);
      // Nor across an end of the range.
      if (marks.ends.some((end) => left < end && end < right)) return false;
      return ruling.labelWhereFree(label, x, y, colors.muted, align, least);
    };
    const fits = (x, y) => fitsBeside(x + 4, y, "left") || fitsBeside(x - 4, y, "right");
    ruling.ask(WEIGHTS.ghost, () => {
      ruling.fontOf();
      places.some(([x, y]) => fits(x, y - 3) || fits(x, y + 11));
    });
  }
}

const drawnAt = new WeakMap();

// A ghost's line, made once for where it is drawn: a hand that drags the range draws it again each frame.
function pathOf(ghost, axis, scale, times) {
  const key = `${axis.lo} ${axis.perValue} ${scale.key} ${times}`;
  const known = drawnAt.get(ghost);
  if (known?.key === key) return known;
  const drawn = new Path2D();
  const places = [];
  ghost.at.forEach((value, i) => {
    if (value > axis.hi) return;
    const place = [axis.inside(value), Math.max(scale.yOf(ghost.error[i] / times), -LIMIT)];
    places.push(place);
    drawn.lineTo(...place);
  });
  const made = { key, drawn, places };
  drawnAt.set(ghost, made);
  return made;
}

// The error at a range between those that were tried.
function errorAt(at, errors, place) {
  let i = 1;
  while (i < at.length - 1 && at[i] < place) i += 1;
  const share = (place - at[i - 1]) / (at[i] - at[i - 1]);
  return errors[i - 1] + (errors[i] - errors[i - 1]) * Math.min(Math.max(share, 0), 1);
}
