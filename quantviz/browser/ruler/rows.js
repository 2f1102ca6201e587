// Other grids below the comb, on its axis: the one before, a learner's, the right one. A row may have a mark,
// one value, on its grid or in place of one.

import { paintDisc } from "../page/canvas.js";

// Pixels of a row, and where in it stand the words and the teeth.
export const ROW = 27;
const WORDS = 11;
const TIPS = 13;
const LINE = 23;

export function paintRows(ruling) {
  const { picture, bands } = ruling;
  (picture.rows ?? []).forEach((row, k) => paintRow(ruling, row, bands.foot + ROW * k));
}

function paintRow(ruling, { words, levels, range, at, tone }, top) {
  const { context, axis, colors } = ruling;
  const color = { before: colors.muted, wrong: colors.clippingText, right: colors.handle }[tone];
  context.fillStyle = colors.line;
  context.fillRect(axis.left - 14, top + LINE - 0.5, axis.right - axis.left + 28, 1);
  context.fillStyle = color;
  const places = (levels ?? []).map((level) => axis.at(level));
  const seen = places.filter((x) => x >= axis.left - 1 && x <= axis.right + 1);
  const gap = seen.length > 1 ? (seen.at(-1) - seen[0]) / (seen.length - 1) : 20;
  const half = Math.max(0.6, Math.min(4, gap * 0.35));
  context.beginPath();
  for (const x of seen) {
    context.moveTo(x - half, top + LINE);
    context.lineTo(x, top + TIPS);
    context.lineTo(x + half, top + LINE);
  }
  context.fill();
  if (range) {
    context.strokeStyle = color;
    context.lineWidth = 2;
    context.beginPath();
    for (const [end, inwards] of [
      [range[0], 1],
      [range[1], -1],
    ]) {
      const x = axis.inside(end);
      context.moveTo(x + 5 * inwards, top + TIPS - 1);
      context.lineTo(x, top + TIPS - 1);
      context.lineTo(x, top + LINE + 1);
    }
    context.stroke();
  }
  ruling.fontOf(600);
  if (at !== null && at !== undefined) {
    const x = axis.inside(at);
    paintDisc(context, x, top + LINE - 4, 4.5, color);
    if (!levels?.length) return ruling.label(words, x, top + WORDS, color);
  }
  ruling.label(words, axis.left - 14, top + WORDS, color, "left");
}
