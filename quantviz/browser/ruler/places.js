// Where everything on the ruler stands, in CSS pixels. Pure functions: nothing here draws.

import { ROW } from "./rows.js";
import { BELOW_SLIDER } from "./votes.js";

// Free pixels left and right of the axis: half a target of a finger, so that an end can be grasped.
const SIDE = 24;
// Narrower than this the ruler has a phone's heights and targets.
export const NARROW = 560;
// The least side of what is tapped.
export const TARGET = 24;
// Above so many teeth in sight they are a dense comb; above so many values the histogram stands alone.
export const MOST_TEETH = 64;
export const MOST_DOTS = 2000;
// Up to so many codes all teeth are in view, and no hand drags one out of it.
export const FEW_TEETH = 16;
// Of one value alone: no others lie above it, and its teeth have one label.
const LOW_BANDS = [44, 31, 0];
// On a wall, where a lesson's panels stand above it: dots, and a comb with two lines of labels of one size.
// With a curve below, dots have less.
const WALL_BANDS = [54, 41, 0];
const WALL_BANDS_WITH_CURVE = [46, 41, 40];
// In the Lab dots, or the curve in their place, stand on the comb: as high in every tab, and higher in a
// window at least so high. With the comb's line they are 160 px and more.
const STANDING_BANDS = [150, 40];
const STANDING_NARROW = [78, 36];
const HIGH_WINDOW = 700;
const HIGHER = 50;
// How high dots are over panels' ruler, and over one that has a lesson's picture for itself.
const DOTS = 84;
const DOTS_ALONE = 150;
const DOTS_ALONE_IN_HIGH = 250;
// Sliders above the dots, and where dots stand on the comb two lines on who pays.
const SLIDERS = 26;
const NARROW_SLIDERS = 44;
const PAYS = 44;
// How much of a ruler is drawn: a course begins with dots and brackets, and the rest comes when it is needed.
// As in `quantviz/lab/picture_parts.py`: sliders alone, dots and brackets, teeth with their codes, the second
// scale below them, and all: bars, and lines in the colours of errors.
const STAGES = ["slider", "dots", "codes", "values", "all"];

// How high dots and a curve are on a wall at least, and at most.
const LEAST_ON_WALL = [36, 30];
const MOST_ON_WALL = [190, 90];

// Whether a picture shows what comes with a stage. One that names none shows all.
export function draws(picture, stage) {
  return STAGES.indexOf(picture.stage ?? "all") >= STAGES.indexOf(stage);
}

// The bands from top to bottom: sliders (only where there are any), dots, comb, other grids, curve. `room` is
// the height that a wall has left for all of them; 0 is for the usual one.
export function bandsOf(width, picture, wall = false, windowHeight = 0, room = 0) {
  const narrow = width < NARROW;
  if (picture.standing && !wall) return standingBands(picture, narrow, windowHeight >= HIGH_WINDOW);
  const slider = slidersHeight(picture, narrow && !wall);
  // A class's answers stand below it.
  const sliders = slider && slider + (picture.votes && picture.votes.on !== "axis" ? BELOW_SLIDER : 0);
  const usual = heightsOf(picture, { narrow, wall, high: windowHeight >= HIGH_WINDOW });
  const comb = usual[1];
  const top = sliders;
  // A row that comes with a hand's first move has its room from the beginning: nothing below moves then.
  const reserved = wall ? 0 : (picture.reserved ?? 0);
  const rows = draws(picture, "dots") ? ROW * Math.max(picture.rows?.length ?? 0, reserved) : 0;
  const [dots, curve] = room ? fittedToWall(picture, usual, room - sliders - rows) : [usual[0], usual[2]];
  return {
    narrow,
    slider,
    sliders,
    top,
    tips: top + dots,
    line: top + dots + 13,
    foot: top + dots + comb,
    curve: top + dots + comb + rows,
    base: top + dots + comb + rows + curve - 6,
    height: top + dots + comb + rows + curve,
    ...smallSizes(narrow && !wall),
  };
}

// The bands where the comb is in one place whatever stands on it.
function standingBands(picture, narrow, high) {
  const [usual, comb] = narrow ? STANDING_NARROW : STANDING_BANDS;
  const tips = usual + (high ? HIGHER : 0);
  return {
    narrow,
    standing: true,
    slider: 0,
    sliders: 0,
    top: picture.pays && !narrow ? PAYS : 0,
    tips,
    line: tips + 13,
    foot: tips + comb,
    curve: 0,
    base: tips + 13,
    height: tips + comb,
    ...smallSizes(narrow),
  };
}

// Where the second line of labels stands below the comb, and how far a finger or a mouse reaches.
function smallSizes(narrow) {
  return { values: narrow ? 22.5 : 25.5, reach: narrow ? 44 : 24 };
}

function slidersHeight({ handles }, narrow) {
  if (!handles.bits && !handles.group) return 0;
  return narrow ? NARROW_SLIDERS : SLIDERS;
}

// Whether a picture has enough points of an error curve for a line.
export function drawsCurve({ curve }) {
  return curve?.at.length > 1;
}

// The heights of dots, comb and curve.
function heightsOf(picture, { narrow, wall, high }) {
  if (!draws(picture, "dots")) return [0, 0, 0];
  if (picture.single) return LOW_BANDS;
  if (wall) return picture.curve ? WALL_BANDS_WITH_CURVE : WALL_BANDS;
  // A curve that a drag goes by is as high as all above it.
  const half = picture.curve?.half;
  if (narrow) return picture.curve ? [50, 34, curveHeight(half, 50 + 34, 36)] : [DOTS, 36, 0];
  const alone = high ? DOTS_ALONE_IN_HIGH : DOTS_ALONE;
  const dots = picture.alone ? alone : DOTS;
  return [dots, 40, picture.curve ? curveHeight(half, dots + 40, 60) : 0];
}

// The heights of dots and curve when both share what is left over of `room`, or what is missing.
function fittedToWall(picture, [dots, comb, curve], room) {
  if (!dots || picture.single) return [dots, curve];
  const more = room - dots - comb - curve;
  const [ofDots, ofCurve] = curve ? [more / 2, more / 2] : [more, 0];
  const fitted = (height, by, k) =>
    Math.min(Math.max(Math.floor(height + by), LEAST_ON_WALL[k]), MOST_ON_WALL[k]);
  return [fitted(dots, ofDots, 0), curve && fitted(curve, ofCurve, 1)];
}

function curveHeight(half, above, usual) {
  return half ? above : usual;
}

// Values to pixels and back.
export class Axis {
  constructor([lo, hi], width) {
    this.lo = lo;
    this.hi = hi > lo ? hi : lo + 1;
    this.left = SIDE;
    this.right = Math.max(width - SIDE, SIDE + 1);
    this.perValue = (this.right - this.left) / (this.hi - this.lo);
  }

  at(value) {
    return this.left + (value - this.lo) * this.perValue;
  }

  // As `at`, but what lies outside is at the axis' end.
  inside(value) {
    return Math.min(Math.max(this.at(value), this.left), this.right);
  }

  value(x) {
    return Math.min(Math.max(this.lo + (x - this.left) / this.perValue, this.lo), this.hi);
  }

  // The same for what may go past the ends: there a pixel is worth so much that the margin leads to the
  // farthest place.
  valueBeyond(x) {
    const past = Math.max(this.left - x, x - this.right, 0) / SIDE;
    return this.value(x) + Math.sign(x - this.left) * Math.min(past, 1) * this.farther;
  }

  // How far past its ends a value may go that a hand makes an outlier of.
  get farther() {
    return (this.hi - this.lo) / 2;
  }
}

// The teeth in sight: their numbers among all levels, their pixels, and the distance to the nearest other.
export function teethOf(levels, axis) {
  const found = [];
  const count = levels?.length ?? 0;
  for (let i = 0; i < count; i++) {
    const x = axis.at(levels[i]);
    if (x >= axis.left - 1 && x <= axis.right + 1) found.push({ i, x, room: Infinity });
  }
  for (let k = 1; k < found.length; k++) {
    const gap = found[k].x - found[k - 1].x;
    found[k].room = gap;
    found[k - 1].room = Math.min(found[k - 1].room, gap);
  }
  return found;
}

const STRIDES = [1, 2, 4, 5, 8, 10, 16, 20, 32, 50, 64, 100, 128];

// The teeth whose labels can all be read: none touches another. `widthOf(tooth)` is a label's width; `first`
// are the places among `teeth` that matter most. On an even comb they and every second, fourth … tooth
// counted from the first of them, on an uneven one whatever there is room for on the way outwards.
export function labelledTeeth(teeth, widthOf, first, gap = 6) {
  const chosen = new Set();
  if (!teeth.length) return chosen;
  const spans = [];
  const halves = teeth.map((tooth) => (widthOf(tooth) + gap) / 2);
  const take = (k) => {
    const [left, right] = [teeth[k].x - halves[k], teeth[k].x + halves[k]];
    if (chosen.has(k) || spans.some((span) => right > span[0] && left < span[1])) return;
    chosen.add(k);
    spans.push([left, right]);
  };
  for (const k of first) if (k >= 0) take(k);
  const start = first.find((k) => k >= 0) ?? 0;
  if (isEven(teeth)) {
    const stride = STRIDES.find((each) => readable(teeth, halves, start % each, each)) ?? teeth.length;
    for (let k = start % stride; k < teeth.length; k += stride) take(k);
    return chosen;
  }
  for (let away = 1; away < teeth.length; away++) {
    if (start + away < teeth.length) take(start + away);
    if (start - away >= 0) take(start - away);
  }
  return chosen;
}

function isEven(teeth) {
  const gap = teeth.length > 1 ? teeth[1].x - teeth[0].x : 0;
  return teeth.every((tooth, k) => !k || Math.abs(tooth.x - teeth[k - 1].x - gap) < 0.5);
}

function readable(teeth, halves, from, stride) {
  for (let k = from + stride; k < teeth.length; k += stride)
    if (teeth[k].x - teeth[k - stride].x < halves[k] + halves[k - stride]) return false;
  return true;
}

// A number from 0 to 1 that looks like chance and follows from the place alone, so that a value keeps its
// height from frame to frame.
function chanceOf(place) {
  let h = Math.imul(place + 1, 0x9e3779b1);
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return ((h ^ (h >>> 16)) >>> 0) / 4294967296;
}

// Pixels of a stretch in which dots count as crowded together.
const CROWD = 10;

// The pixels of all dots as x, y, x, y …: crowded ones take the whole band, lonely ones its middle. The
// selected value has a height of its own, and moves nobody else's.
export function dotPlaces(picture, axis, bands) {
  const { values, selected } = picture;
  const places = new Float32Array(2 * values.length);
  const crowds = new Float32Array(Math.ceil((axis.right - axis.left) / CROWD) + 2);
  for (let i = 0; i < values.length; i++) {
    const x = (places[2 * i] = axis.inside(values[i]));
    if (i !== selected) crowds[Math.floor((x - axis.left) / CROWD)] += 1;
  }
  const [top, bottom] = [bands.top + 22, bands.tips - 12];
  for (let i = 0; i < values.length; i++) {
    const k = Math.floor((places[2 * i] - axis.left) / CROWD);
    const around = crowds[k] + ((crowds[k - 1] ?? 0) + (crowds[k + 1] ?? 0)) / 2;
    const spread = Math.min(1, 0.55 + around / 16);
    // The whole of the height, but the topmost part only where it is crowded.
    const height = bottom - top + 14 * Math.min(1, around / 24);
    places[2 * i + 1] = bottom - height * (0.5 + (chanceOf(i) - 0.5) * spread);
  }
  if (selected >= 0) places[2 * selected + 1] = bands.tips - (bands.narrow ? 16 : 18);
  return places;
}

// Put the clipped dots on two piles at the teeth where they land, into `places`: the farthest value lies at
// the bottom, so that those that are clipped next come on top. Returns the piles.
export function pileUp(picture, axis, bands, places, radius) {
  const piles = { lower: [], upper: [] };
  const { values, landed, clipped, selected } = picture;
  for (let i = 0; i < values.length; i++)
    if (clipped[i] && i !== selected) piles[values[i] < landed[i] ? "lower" : "upper"].push(i);
  const side = 2 * radius + 0.5;
  const room = bands.tips - bands.top - 12;
  const found = [];
  for (const [name, out] of [
    ["lower", -1],
    ["upper", 1],
  ]) {
    const pile = piles[name];
    if (!pile.length) continue;
    // The selected one has a place of its own, and is counted all the same.
    const alone = clipped[selected] && (values[selected] < landed[selected] ? -1 : 1) === out ? 1 : 0;
    pile.sort((a, b) => out * (values[b] - values[a]) || a - b);
    // Beside the tooth, where a bracket may stand.
    const foot = axis.inside(landed[pile[0]]) + out * (radius + 2);
    const outside = out > 0 ? axis.right + SIDE / 2 - foot : foot - axis.left + SIDE / 2;
    const most = Math.max(1, Math.floor(outside / side));
    const columns = Math.min(most, Math.ceil(pile.length / Math.floor(room / side)), 6);
    const rows = Math.ceil(pile.length / columns);
    const rise = Math.min(side, room / rows);
    pile.forEach((i, k) => {
      places[2 * i] = foot + out * side * (k % columns);
      places[2 * i + 1] = bands.tips - 4 - rise * Math.floor(k / columns);
    });
    found.push({
      name,
      members: pile,
      count: pile.length + alone,
      foot,
      edge: foot + out * (side * (columns - 1) + radius),
      top: bands.tips - 4 - rise * (rows - 1) - radius,
      out,
    });
  }
  return found;
}

// How large dots are, and how strongly they and their errors' lines are drawn: many are smaller and paler.
export function dotSize(count, narrow) {
  const radius = narrow ? 0.5 : 0;
  if (count <= 100) return { radius: 3 - radius, dot: 0.8, line: 0.42, width: 1 };
  if (count <= 400) return { radius: 2.5 - radius, dot: 0.65, line: 0.28, width: 1 };
  return { radius: 2 - radius, dot: 0.5, line: 0.16, width: 0.75 };
}

// Round numbers along an axis that has no teeth.
export function roundPlaces(axis, apart) {
  const least = apart / axis.perValue;
  const power = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= least);
  const found = [];
  for (let k = Math.ceil(axis.lo / step); k * step <= axis.hi; k++)
    found.push({ x: axis.at(k * step), value: k * step, step });
  return found;
}

// Where in an area `low[i]` to `high[i]` over `xs[i]` a label of this size has the most room, or null.
export function roomInArea(xs, low, high, width, height) {
  let best = null;
  for (let from = 0; from < xs.length; from++) {
    let [top, bottom, to] = [-Infinity, Infinity, from];
    while (to < xs.length && xs[to] - xs[from] < width) {
      top = Math.max(top, high[to]);
      bottom = Math.min(bottom, low[to]);
      to += 1;
    }
    if (to === xs.length) break;
    top = Math.max(top, high[to]);
    bottom = Math.min(bottom, low[to]);
    if (bottom - top >= height && (!best || bottom - top > best.room))
      best = { x: (xs[from] + xs[to]) / 2, y: (top + bottom) / 2, room: bottom - top };
  }
  return best;
}

// Where targets begin that stand side by side, each over what it takes: `takes` have an `x`. Those that would
// lie over each other part, around their middle.
export function targetsOf(takes) {
  const groups = [];
  for (const take of takes.toSorted((one, other) => one.x - other.x)) {
    let group = { takes: [take], middle: take.x };
    while (groups.length && endOf(groups.at(-1)) > group.middle - (group.takes.length * TARGET) / 2) {
      const all = [...groups.pop().takes, ...group.takes];
      group = { takes: all, middle: all.reduce((sum, { x }) => sum + x, 0) / all.length };
    }
    groups.push(group);
  }
  return groups.flatMap((group) =>
    group.takes.map((each, k) => ({ ...each, left: endOf(group) - (group.takes.length - k) * TARGET })),
  );
}

function endOf({ takes, middle }) {
  return middle + (takes.length * TARGET) / 2;
}
