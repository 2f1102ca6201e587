// The error against the range, as two areas on the axis of the comb: in a lesson one on the other below the
// comb, in the Lab both on the comb's line, in decibels.

import { paintDisc, paintLine, paintTeeth } from "../page/canvas.js";
import { DASH, askForGhostWords, paintGhosts } from "./ghosts.js";
import { filled } from "./figures.js";
import { decibels, linear, paintDecibels } from "./error_scale.js";
import { roomInArea } from "./places.js";
import { WEIGHTS } from "./weights.js";

// Where a name may stand, the best first: how many pixels above its usual place, and on which side. Ghosts
// have their names on the right, so that what must stand farther up tries the left.
const NAME_PLACES = [[0], [4, 8, 13], [26, 39], [-22]].flatMap((heights) =>
  [-1, 1].flatMap((side) => heights.map((away) => [away, side])),
);

export function paintCurve(ruling) {
  const { picture, axis, bands, context, colors } = ruling;
  const { at, rounding, clipping, estimated } = picture.curve;
  const { base } = bands;
  const top = bands.curve + 3;
  const both = rounding.map((error, i) => error + clipping[i]);
  const scale = bands.standing ? decibels(both, base, top) : linear(both, rounding, base, top);
  const xs = Array.from(at, (value) => axis.inside(value));
  const heights = (errors) => Array.from(errors, (error) => Math.max(scale.yOf(error), -4 * bands.height));
  const feet = xs.map(() => base);
  const seams = heights(rounding);
  const tops = heights(both);
  if (!bands.standing) {
    context.fillStyle = colors.line;
    context.fillRect(axis.left - 14, base, axis.right - axis.left + 28, 1);
  } else paintDecibels(ruling, scale);
  context.save();
  context.beginPath();
  context.rect(0, top - 2, axis.right + axis.left, base - top + 3);
  context.clip();
  if (estimated) context.setLineDash(DASH);
  // On a scale of decibels parts do not stand on each other.
  const clipped = bands.standing ? heights(clipping) : tops;
  paintArea(ruling, xs, feet, seams, colors.rounding);
  paintArea(ruling, xs, bands.standing ? feet : seams, clipped, colors.clipping);
  if (bands.standing) paintLine(context, edgeOf(xs, tops), colors.text, 2);
  const ghosts = paintGhosts(ruling, { at, both, scale, top });
  context.restore();
  ruling.marks.curve = {
    xs,
    tops: tops.map((y) => Math.max(y, top)),
    ghosts,
    heightOf: (error) => Math.max(scale.yOf(error), top),
  };
  const seen = (ys) => ys.map((y) => Math.max(y, top));
  // Each area's own part: where it is the larger one, down to the other.
  const parts = bands.standing
    ? { rounding: [seen(clipped), seen(seams)], clipping: [seen(seams), seen(clipped)] }
    : { rounding: [feet, seams], clipping: [seams, seen(tops)] };
  askForCurveWords(ruling, xs, parts);
}

const edgeOf = (xs, ys) => xs.map((x, i) => [x, ys[i]]);

// Rings on the curve: where the range is now, and what else is told of it; what has an error of its own
// stands at that. Those that can be taken are told to the ruler.
export function paintCurveMarks(ruling) {
  const { picture, axis, bands, colors } = ruling;
  const { now, marks = [] } = picture.curve;
  ruling.marks.takes = [];
  const rings = [];
  const marked = picture.range?.[picture.curve.lower ? "lo" : "hi"] ?? now;
  // On the comb the end's own knob rides on the curve.
  const rides = ruling.onCurve && picture.range && picture.handles.range;
  for (const { at, mse, label, told, take, best } of marks) {
    const x = axis.at(at);
    // The table has what would lie under the knob.
    if (rides && !best && Math.abs(x - axis.at(marked)) < bands.reach) continue;
    const y = paintCurveMark(ruling, x, colors.text, 4, mse);
    if (y === null) continue;
    rings.push({ x, y, label, best });
    if (take) ruling.marks.takes.push({ x, y, told, take });
  }
  // In a lesson the least is for the hand to find.
  const minima = picture.curve.half ? [] : paintMinima(ruling, rings);
  if (marked !== null && marked !== undefined && !rides)
    paintCurveMark(ruling, axis.at(marked), colors.handle, 5);
  const name = (weight, words, x, y, color) =>
    ruling.ask(weight, () => {
      ruling.fontOf();
      nameRing(ruling, words, x, y, color);
    });
  // On a phone there is room for the best alone.
  for (const { x, y, label, best } of rings)
    if (best || !bands.narrow) name(best ? WEIGHTS.best : WEIGHTS.ring, label, x, y, colors.text);
  if (!bands.narrow)
    for (const { x, y } of minima) name(WEIGHTS.minimum, ruling.words.minimum, x, y, colors.muted);
  askForGhostWords(ruling);
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
  const alone = [];
  for (const i of minima) {
    if (at[i] > axis.hi) continue;
    const [x, y] = [xs[i], tops[i] - 7];
    paintTeeth(context, [{ x }], () => 4, [y - 6, y], colors.text);
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
  paintLine(context, edgeOf(xs, high), color, 1.25);
}

// The height of the curve's upper edge at `x`; null beside the curve.
export function heightAt({ xs, tops }, x) {
  if (x < xs[0] - 1 || x > xs.at(-1) + 1) return null;
  let i = 1;
  while (i < xs.length - 1 && xs[i] < x) i += 1;
  const share = xs[i] > xs[i - 1] ? (x - xs[i - 1]) / (xs[i] - xs[i - 1]) : 0;
  return tops[i - 1] + (tops[i] - tops[i - 1]) * Math.min(Math.max(share, 0), 1);
}

// A ring on the curve's upper edge, over which no name is written; returns its height, or null beside the
// curve.
function paintCurveMark(ruling, x, color, radius, error) {
  const { heightOf } = ruling.marks.curve;
  const onCurve = heightAt(ruling.marks.curve, x);
  if (onCurve === null) return null;
  const y = error === undefined ? onCurve : heightOf(error);
  paintDisc(ruling.context, x, y, radius, ruling.colors.surface, color, 2);
  ruling.marks.taken.push({ left: x - radius, right: x + radius, top: y - radius, bottom: y + radius });
  return y;
}

// Each area's name stands in it, or beside the curve where it is too thin; `parts` has the lower and the
// upper edge of each.
function askForCurveWords(ruling, xs, parts) {
  const { bands, colors, axis, words, picture } = ruling;
  const named = [
    { words: words.clipping, color: colors.clippingText, edges: parts.clipping },
    { words: words.rounding, color: colors.roundingText, edges: parts.rounding },
  ];
  const [left, right] = [xs[0], xs.at(-1)];
  ruling.fontOf(600);
  const wide = Math.max(...named.map((part) => ruling.widthOf(part.words)));
  const rooms = named.map(({ words: own, edges }) => roomInArea(xs, ...edges, ruling.widthOf(own) + 8, 14));
  const beside = named.filter((_, k) => !rooms[k]);
  named.forEach((part, k) => {
    const place = beside.indexOf(part);
    const y = bands.height - 8 - 15 * (beside.length - 1 - place);
    // Left of the curve where there is room, else in its upper corner.
    const far =
      left - axis.left > wide && !bands.standing
        ? [left - 8, y, "right"]
        : [(left + right) / 2, bands.curve + 14 + 14 * place, "center"];
    const places = rooms[k] ? [0, -15, 15].map((by) => [rooms[k].x, rooms[k].y + 4 + by, "center"]) : [far];
    ruling.ask(WEIGHTS.area, () => {
      ruling.fontOf(600);
      ruling.labelInOneOf(part.words, places, part.color);
    });
  });
  if (bands.standing) return;
  const name = picture.curve.estimated ? words.curve_estimated : words.curve;
  ruling.ask(WEIGHTS.title, () => {
    ruling.fontOf();
    if (!bands.narrow && left - axis.left > ruling.widthOf(name) + 8)
      ruling.labelWhereFree(name, left - 8, bands.curve + 12, colors.muted, "right");
  });
}
