// The error against the range, as two areas on the axis of the comb.

import { roomInArea } from "./places.js";

const CURVE_LABEL = 12;

export function paintCurve(ruling) {
  const { picture, axis, bands, context, colors, words } = ruling;
  const { at, rounding, clipping, now, marks = [] } = picture.curve;
  const count = at.length;
  if (count < 2) return;
  const base = bands.height - 1;
  const tall = bands.height - bands.foot - 6;
  let most = 0;
  for (let i = 0; i < count; i++) most = Math.max(most, rounding[i] + clipping[i]);
  const [xs, feet, seams, tops] = [[], [], [], []];
  for (let i = 0; i < count; i++) {
    xs.push(axis.inside(at[i]));
    feet.push(base);
    seams.push(base - (most ? (rounding[i] / most) * tall : 0));
    tops.push(base - (most ? ((rounding[i] + clipping[i]) / most) * tall : 0));
  }
  paintArea(ruling, xs, feet, seams, colors.rounding);
  paintArea(ruling, xs, seams, tops, colors.clipping);
  context.fillStyle = colors.line;
  context.fillRect(axis.left - 14, base, axis.right - axis.left + 28, 1);
  const marked = picture.range ? picture.range.hi : now;
  if (marked !== null && marked !== undefined)
    paintCurveMark(ruling, xs, tops, axis.at(marked), colors.handle, 5);
  paintCurveWords(ruling, xs, feet, seams, tops, words);
  ruling.fontOf(11);
  for (const { at: place, label } of marks) {
    const y = paintCurveMark(ruling, xs, tops, axis.at(place), colors.text, 4);
    if (y !== null) ruling.label(label, axis.at(place) - 7, y - 5, colors.text, "right");
  }
}

function paintArea(ruling, xs, low, high, color) {
  const { context } = ruling;
  context.beginPath();
  xs.forEach((x, i) => context.lineTo(x, high[i]));
  for (let i = xs.length - 1; i >= 0; i--) context.lineTo(xs[i], low[i]);
  context.closePath();
  context.globalAlpha = 0.32;
  context.fillStyle = color;
  context.fill();
  context.globalAlpha = 1;
  context.beginPath();
  xs.forEach((x, i) => context.lineTo(x, high[i]));
  context.strokeStyle = color;
  context.lineWidth = 1.25;
  context.stroke();
}

// A ring on the curve's upper edge; returns its height, or null beside the curve.
function paintCurveMark(ruling, xs, tops, x, color, radius) {
  const { context } = ruling;
  if (x < xs[0] - 1 || x > xs.at(-1) + 1) return null;
  let i = 1;
  while (i < xs.length - 1 && xs[i] < x) i += 1;
  const share = xs[i] > xs[i - 1] ? (x - xs[i - 1]) / (xs[i] - xs[i - 1]) : 0;
  const y = tops[i - 1] + (tops[i] - tops[i - 1]) * Math.min(Math.max(share, 0), 1);
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  context.fillStyle = ruling.colors.surface;
  context.fill();
  context.strokeStyle = color;
  context.lineWidth = 2;
  context.stroke();
  return y;
}

// Each area's name stands in it, or beside the curve where it is too thin.
function paintCurveWords(ruling, xs, feet, seams, tops, words) {
  const { bands, colors, axis } = ruling;
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
    else ruling.label(part.words, (left + right) / 2, bands.foot + 14 + 14 * k, part.color);
  });
  ruling.fontOf(11);
  if (left - axis.left > ruling.widthOf(words.curve) + 8)
    ruling.label(words.curve, left - 8, bands.foot + 12, colors.muted, "right");
}
