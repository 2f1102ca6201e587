// Other grids below the comb, on its axis: the one before, a learner's, the right one. A row may have a mark,
// one value, on its grid or in place of one.

import { paintDisc, paintLine, paintTeeth } from "../page/canvas.js";

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
  const places = (levels ?? []).map((level) => ({ x: axis.at(level) }));
  const seen = places.filter(({ x }) => x >= axis.left - 1 && x <= axis.right + 1);
  const gap = seen.length > 1 ? (seen.at(-1).x - seen[0].x) / (seen.length - 1) : 20;
  const half = Math.max(0.6, Math.min(4, gap * 0.35));
  paintTeeth(context, seen, () => half, [top + LINE, top + TIPS], color);
  (range ?? []).forEach((end, k) => {
    const [x, y] = [axis.inside(end), top + TIPS - 1];
    const bracket = [
      [x + (k ? -5 : 5), y],
      [x, y],
      [x, top + LINE + 1],
    ];
    paintLine(context, bracket, color, 2);
  });
  ruling.fontOf(600);
  if (at !== null && at !== undefined) {
    const x = axis.inside(at);
    paintDisc(context, x, top + LINE - 4, 4.5, color);
    if (!levels?.length) return ruling.label(words, x, top + WORDS, color);
  }
  ruling.label(words, axis.left - 14, top + WORDS, color, "left");
}
