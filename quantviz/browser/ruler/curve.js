// The error against the range, as two areas on the axis of the comb.

import { paintDisc, paintLine } from "../page/canvas.js";
import { DASH, paintGhosts, paintGhostWords } from "./ghosts.js";
import { filled } from "./figures.js";
import { roomInArea } from "./places.js";

const CURVE_LABEL = 12;
// Where a name may stand, the best first: how many pixels above its usual place, and on which side. Ghosts
// have their names on the right, so that what must stand farther up tries the left.
const NAME_PLACES = [[0], [4, 8, 13], [26, 39], [-22]].flatMap((heights) =>
  [-1, 1].flatMap((side) => heights.map((away) => [away, side])),
);

// The curve's height shows so many times the largest rounding error: the clipping of a range near 0 is many
// times larger, and runs off the top.
const MOST_OF_ROUNDING = 3;

export function paintCurve(ruling) {
  const { picture, axis, bands, context, colors } = ruling;
  const { at, rounding, clipping, estimated } = picture.curve;
  const base = bands.height - 6;
  const top = bands.curve + 3;
  const both = rounding.map((error, i) => error + clipping[i]);
  const all = both.reduce((most, error) => Math.max(most, error), 0);
  const rounded = rounding.reduce((most, error) => Math.max(most, error), 0);
  const perError = (base - top) / (Math.min(all, rounded ? MOST_OF_ROUNDING * rounded : all) || 1);
  const [xs, feet, seams, tops] = [[], [], [], []];
  for (let i = 0; i < at.length; i++) {
    xs.push(axis.inside(at[i]));
    feet.push(base);
    seams.push(base - rounding[i] * perError);
    tops.push(base - Math.min(both[i] * perError, 4 * bands.height));
  }
  context.fillStyle = colors.line;
  context.fillRect(axis.left - 14, base, axis.right - axis.left + 28, 1);
  context.save();
  context.beginPath();
  context.rect(0, top - 2, axis.right + axis.left, bands.height);
  context.clip();
  if (estimated) context.setLineDash(DASH);
  paintArea(ruling, xs, feet, seams, colors.rounding);
  paintArea(ruling, xs, seams, tops, colors.clipping);
  const ghosts = paintGhosts(ruling, { at, both, base, top, perError });
  context.restore();
  const seen = tops.map((y) => Math.max(y, top));
  ruling.marks.curve = {
    xs,
    tops: seen,
    ghosts,
    heightOf: (error) => Math.max(base - error * perError, top),
  };
  paintCurveWords(ruling, xs, feet, seams, seen);
}

// Rings on the curve: where the range is now, and what else is told of it; what has an error of its own
// stands at that. Those that can be taken are told to the ruler.
export function paintCurveMarks(ruling) {
  const { picture, axis, bands, colors } = ruling;
  const { now, marks = [] } = picture.curve;
  ruling.marks.takes = [];
  const rings = [];
  for (const { at, mse, label, told, take, best } of marks) {
    const x = axis.at(at);
    const y = paintCurveMark(ruling, x, colors.text, 4, mse);
    if (y === null) continue;
    rings.push({ x, y, label, best });
    if (take) ruling.marks.takes.push({ x, y, told, take });
  }
  // In a lesson the least is for the hand to find.
  const minima = picture.curve.half ? [] : paintMinima(ruling, rings);
  const marked = picture.range?.[picture.curve.lower ? "lo" : "hi"] ?? now;
  if (marked !== null && marked !== undefined) paintCurveMark(ruling, axis.at(marked), colors.handle, 5);
  ruling.fontOf(bands.narrow ? 10 : 11);
  // Where there is no room for all names the best has its own; on a phone there is room for no other.
  const named = rings.toSorted((a, b) => Boolean(b.best) - Boolean(a.best));
  for (const { x, y, label, best } of named)
    if (best || !bands.narrow) nameRing(ruling, label, x, y, colors.text);
  if (!bands.narrow)
    for (const { x, y } of minima) nameRing(ruling, ruling.words.minimum, x, y, colors.muted);
  paintGhostWords(ruling);
}

// The name beside what is at a place of the curve, or farther away with a thin line to it.
function nameRing(ruling, text, x, y, color) {
  const { context } = ruling;
  for (const [away, side] of NAME_PLACES) {
    const foot = y - 5 - away;
    const align = side < 0 ? "right" : "left";
    if (!ruling.labelWhereFree(text, x + 7 * side, foot, color, align, ruling.bands.curve - 2)) continue;
    const link = [
      [x + 1.5 * side, away > 0 ? y - 4 : y + 4],
      [x + 6 * side, away > 0 ? foot + 2 : foot - 9],
    ];
    if (away) paintLine(context, link, color, 1);
    return;
  }
}

// A triangle over each of several minima; returns where those without a mark stand, whose range can be taken.
function paintMinima(ruling, rings) {
  const { picture, context, axis, colors, words } = ruling;
  const { lo, at, rounding, clipping, takes } = picture.curve;
  const minima = minimaOf(rounding.map((error, i) => error + clipping[i]));
  if (!lo || minima.length < 2) return [];
  const { xs, tops } = ruling.marks.curve;
  context.fillStyle = colors.text;
  const alone = [];
  for (const i of minima) {
    if (at[i] > axis.hi) continue;
    const [x, y] = [xs[i], tops[i] - 7];
    context.beginPath();
    context.moveTo(x, y);
    context.lineTo(x - 4, y - 6);
    context.lineTo(x + 4, y - 6);
    context.fill();
    if (rings.some((ring) => Math.abs(ring.x - x) < 12)) continue;
    alone.push({ x, y });
    const told = filled(words.minimum_take, { value: ruling.written(at[i]) });
    if (takes)
      ruling.marks.takes.push({ x, y: tops[i], told, take: { kind: "range", lo: lo[i], hi: at[i] } });
  }
  return alone;
}

// The places of the minima between which an error rises by 0.1 dB or more, and of the least: as
// `analysis/range_error.py` has them.
export function minimaOf(errors) {
  const factor = 10 ** 0.01;
  const found = new Set([errors.indexOf(errors.reduce((least, error) => Math.min(least, error)))]);
  let [low, high, falling] = [0, 0, true];
  errors.forEach((error, k) => {
    if (falling) {
      if (error < errors[low]) low = k;
      else if (error > errors[low] * factor) {
        found.add(low);
        [falling, high] = [false, k];
      }
    } else if (error > errors[high]) high = k;
    else if (error * factor < errors[high]) [falling, low] = [true, k];
  });
  return [...found].toSorted((a, b) => a - b);
}

function paintArea(ruling, xs, low, high, color) {
  const { context, picture } = ruling;
  context.beginPath();
  xs.forEach((x, i) => context.lineTo(x, high[i]));
  for (let i = xs.length - 1; i >= 0; i--) context.lineTo(xs[i], low[i]);
  context.closePath();
  context.globalAlpha = picture.curve.estimated ? 0.16 : 0.32;
  context.fillStyle = color;
  context.fill();
  context.globalAlpha = 1;
  const edge = Array.from(xs, (x, i) => [x, high[i]]);
  paintLine(context, edge, color, 1.25);
}

// A ring on the curve's upper edge, over which no name is written; returns its height, or null beside the
// curve.
function paintCurveMark(ruling, x, color, radius, error) {
  const { xs, tops, heightOf } = ruling.marks.curve;
  if (x < xs[0] - 1 || x > xs.at(-1) + 1) return null;
  let i = 1;
  while (i < xs.length - 1 && xs[i] < x) i += 1;
  const share = xs[i] > xs[i - 1] ? (x - xs[i - 1]) / (xs[i] - xs[i - 1]) : 0;
  const onCurve = tops[i - 1] + (tops[i] - tops[i - 1]) * Math.min(Math.max(share, 0), 1);
  const y = error === undefined ? onCurve : heightOf(error);
  paintDisc(ruling.context, x, y, radius, ruling.colors.surface, color, 2);
  ruling.marks.taken.push({ left: x - radius, right: x + radius, top: y - radius, bottom: y + radius });
  return y;
}

// Each area's name stands in it, or beside the curve where it is too thin.
function paintCurveWords(ruling, xs, feet, seams, tops) {
  const { bands, colors, axis, words, picture } = ruling;
  ruling.fontOf(CURVE_LABEL, 600);
  const parts = [
    { words: words.clipping, color: colors.clippingText, low: seams, high: tops },
    { words: words.rounding, color: colors.roundingText, low: feet, high: seams },
  ];
  const beside = [];
  for (const part of parts) {
    const width = ruling.widthOf(part.words);
    const room = roomInArea(xs, part.low, part.high, width + 8, 14);
    if (room) ruling.label(part.words, room.x, room.y + 4, part.color);
    else beside.push(part);
  }
  // Left of the curve where there is room, else in its upper corner.
  const [left, right] = [xs[0], xs.at(-1)];
  const wide = Math.max(...parts.map((part) => ruling.widthOf(part.words)));
  beside.forEach((part, k) => {
    const y = bands.height - 8 - 15 * (beside.length - 1 - k);
    if (left - axis.left > wide) ruling.label(part.words, left - 8, y, part.color, "right");
    else ruling.label(part.words, (left + right) / 2, bands.curve + 14 + 14 * k, part.color);
  });
  ruling.fontOf(11);
  const name = picture.curve.estimated ? words.curve_estimated : words.curve;
  if (!bands.narrow && left - axis.left > ruling.widthOf(name) + 8)
    ruling.label(name, left - 8, bands.curve + 12, colors.muted, "right");
}
