// The comb of codes: its teeth, their labels, and the values below them.

import { paintTeeth } from "../page/canvas.js";
import { writtenAlike } from "./figures.js";
import { MOST_TEETH, draws, labelledTeeth, roundPlaces } from "./places.js";

export function paintComb(ruling) {
  const { context, axis, bands, colors, teeth, picture } = ruling;
  context.fillStyle = colors.line;
  context.fillRect(axis.left - 14, bands.line - 0.5, axis.right - axis.left + 28, 1);
  if (!draws(picture, "codes")) return paintEnds(ruling);
  if (!teeth.length) return paintRoundNumbers(ruling);
  const dense = teeth.length > MOST_TEETH;
  const [zeros, others] = [true, false].map((each) => teeth.filter(({ i }) => (i === picture.zero) === each));
  if (dense) paintDenseComb(ruling);
  else paintTriangles(ruling, others, colors.tooth);
  paintTriangles(ruling, dense ? zeros.map(({ x }) => ({ x, room: 12 })) : zeros, colors.text);
  const held = teeth.find((tooth) => tooth.i === ruling.held?.handle.index && ruling.held.handle.code);
  if (held) paintTriangles(ruling, [{ x: held.x, room: Math.max(held.room, 12) }], colors.handle);
  // Names that come and go with the room beside them would flicker on the way.
  if (!picture.gliding) paintToothLabels(ruling, held);
}

function paintTriangles({ context, bands }, teeth, color) {
  const halfOf = ({ room }) => Math.max(0.75, Math.min(5, room * 0.4));
  paintTeeth(context, teeth, halfOf, [bands.line, bands.tips], color);
}

function paintDenseComb(ruling) {
  const { context, bands, colors, teeth } = ruling;
  const gap = (teeth.at(-1).x - teeth[0].x) / (teeth.length - 1);
  context.fillStyle = colors.tooth;
  context.globalAlpha = gap < 2.5 ? 0.6 : 1;
  context.beginPath();
  for (const { x } of teeth) context.rect(x - 0.5, bands.line - 9, 1, 9);
  context.fill();
  context.globalAlpha = 1;
}

// The tooth that a hand holds keeps its label.
function paintToothLabels(ruling, held) {
  const { bands, colors, teeth, picture } = ruling;
  const { codes, levels, zero, selected, landed } = picture;
  const place = (i) => teeth.findIndex((tooth) => tooth.i === i);
  const own = selected >= 0 ? nearestLevel(levels, landed[selected]) : -1;
  const first = [place(zero), 0, teeth.length - 1];
  if (held) first.unshift(place(held.i));
  ruling.fontOf();
  const chosen = labelledTeeth(teeth, ({ i }) => ruling.widthOf(codes[i]), first);
  const baseline = bands.line + 13;
  for (const k of [...chosen].toSorted((a, b) => a - b)) {
    const { i, x } = teeth[k];
    const strong = i === own || i === zero;
    paintBelow(ruling, codes[i], x, baseline, strong ? colors.text : colors.muted);
    ruling.marks.teeth.push({ i, x });
  }
  // A comb that was pressed together until no label fits must open again: its ends can be held without one.
  for (const k of new Set([0, teeth.length - 1])) if (!chosen.has(k)) ruling.marks.teeth.push(teeth[k]);
  paintToothValues(
    ruling,
    [...chosen].toSorted((a, b) => a - b).map((k) => teeth[k]),
    zero,
  );
}

// A label below the comb; an end of the range runs behind those near it.
function paintBelow(ruling, words, x, y, color) {
  const { marks, axis } = ruling;
  const half = ruling.widthOf(words) / 2;
  const near = marks.ends.some((end) => Math.abs(end - x) < half + 4);
  const edge = axis.right + axis.left - 1;
  if (near || x - half < 1 || x + half > edge) ruling.label(words, x, y, color);
  else ruling.write(words, x, y, color);
}

// The values below their codes, where they say something else and there is room.
function paintToothValues(ruling, labelled, zero) {
  const { bands, colors, picture } = ruling;
  const { codes, levels } = picture;
  // A single value's teeth are called by their values.
  if (picture.single || !draws(picture, "values")) return;
  const gap = evenGap(levels) * (labelled.length > 1 ? labelled[1].i - labelled[0].i : 1);
  const values = labelled.map(({ i }) => levels[i]);
  const texts = gap
    ? writtenAlike(values, gap, ruling.writing)
    : values.map((value) => ruling.written(value, 3));
  const words = new Map(labelled.map(({ i }, k) => [i, texts[k]]));
  if (labelled.every(({ i }) => words.get(i) === codes[i])) return;
  ruling.fontOf();
  const middle = labelled.findIndex(({ i }) => i === zero);
  const chosen = labelledTeeth(labelled, ({ i }) => ruling.widthOf(words.get(i)), [middle, 0], 8);
  const baseline = bands.line + bands.values;
  for (const k of chosen) paintBelow(ruling, words.get(labelled[k].i), labelled[k].x, baseline, colors.muted);
}

// The values at both ends of the range, where there are no teeth yet.
function paintEnds(ruling) {
  const { axis, bands, colors, picture } = ruling;
  if (!picture.range || picture.gliding) return;
  ruling.fontOf();
  for (const end of [picture.range.lo, picture.range.hi])
    ruling.label(ruling.written(end), axis.inside(end), bands.line + 14, colors.muted);
}

// An axis of round numbers, where a format has too many codes for a comb.
function paintRoundNumbers(ruling) {
  const { context, axis, bands, colors } = ruling;
  ruling.fontOf();
  for (const { x, value, step } of roundPlaces(axis, 80)) {
    ruling.write(ruling.written(Math.round(value / step) * step, 6), x, bands.line + 13, colors.muted);
    context.fillRect(x - 0.5, bands.line - 5, 1, 5);
  }
}

// The number of the level next to a value.
export function nearestLevel(levels, value) {
  let best = -1;
  for (let i = 0; i < (levels?.length ?? 0); i++)
    if (best < 0 || Math.abs(levels[i] - value) < Math.abs(levels[best] - value)) best = i;
  return best;
}

// The distance of neighbouring levels where it is the same everywhere, else 0.
function evenGap(levels) {
  const gap = levels.length > 1 ? (levels.at(-1) - levels[0]) / (levels.length - 1) : 0;
  for (let i = 1; i < levels.length; i++)
    if (Math.abs(levels[i] - levels[i - 1] - gap) > gap * 1e-3) return 0;
  return gap;
}
