// Where a class dragged a handle to: each answer a dot on the axis, or below a slider's stop, full where it was
// sure; the first round as an outline, and the true place as a line.

import { paintDisc, paintLine } from "../page/canvas.js";

const DOT = 3.2;
// Pixels below a slider for the dots of its stops.
export const BELOW_SLIDER = 64;

// The picture with the votes, on an axis that reaches them: to half its length beyond either end.
export function withVotes(picture, votes) {
  if (!votes) return picture;
  const [lo, hi] = picture.domain;
  const far = (hi - lo) / 2;
  const ends = votes.lines.map(([, place]) => place);
  const at =
    votes.on === "axis" ? [...ends, ...[...votes.dots, ...votes.before].map(([place]) => place)] : [];
  const domain = [Math.max(Math.min(lo, ...at), lo - far), Math.min(Math.max(hi, ...at), hi + far)];
  return { ...picture, votes, domain };
}

export function paintVotes(ruling) {
  const { picture, context, bands, colors } = ruling;
  const { votes } = picture;
  if (!votes) return;
  const stack = stackOf(ruling, votes.on);
  if (!stack) return;
  const [now, before] = [votes.dots, votes.before].map((dots) => columnsOf(dots, stack));
  const tallest = Math.max(...[...now, ...before].map(([, sure, guessed]) => sure + guessed), 1);
  const up = Math.min(2 * DOT + 0.4, stack.room / tallest);
  const yOf = (k) => stack.foot - stack.down * up * (k + 0.5);
  for (const [x, sure, guessed] of before) {
    const [y, half] = [yOf(sure + guessed - 0.5), DOT + 1.5];
    context.setLineDash([3, 2]);
    paintLine(
      context,
      [
        [x - half, stack.foot],
        [x - half, y],
        [x + half, y],
        [x + half, stack.foot],
      ],
      colors.text,
      1,
    );
    context.setLineDash([]);
  }
  for (const [x, sure, guessed] of now)
    for (let k = 0; k < sure + guessed; k++)
      paintDisc(
        context,
        x,
        yOf(k),
        DOT,
        k < sure ? colors.clipping : colors.surface,
        k < sure ? colors.surface : colors.clipping,
        1,
      );
  ruling.fontOf(600);
  const [end, y] =
    stack.down > 0 ? [bands.top + 2, bands.top + 12] : [stack.foot + stack.room, stack.foot + stack.room - 3];
  votes.lines.forEach(([words, at]) => {
    const x = stack.xOf(at);
    const isTrue = at === votes.told;
    paintLine(
      context,
      [
        [x, stack.foot],
        [x, end],
      ],
      isTrue ? colors.handle : colors.muted,
      isTrue ? 3 : 1,
    );
    // Beside its line, on whose other side a mistake close to the truth is.
    const sides = [
      [6, "left"],
      [-6, "right"],
    ];
    if (!isTrue) sides.reverse();
    sides.some(([by, align]) => ruling.labelWhereFree(words, x + by, y, colors.text, align));
  });
}

// Where the dots stand: on the axis upwards, below a slider downwards; null where the ruler has neither.
function stackOf({ axis, bands, picture, marks }, on) {
  if (on === "axis")
    return { xOf: (at) => axis.inside(at), foot: bands.tips, down: 1, room: bands.tips - bands.top - 12 };
  const slider = marks.sliders?.[on];
  if (!slider) return null;
  const { labels } = picture.handles[on];
  const stopOf = (at) => (labels.includes(`${at}`) ? labels.indexOf(`${at}`) : labels.length - 1);
  const xOf = (at) => slider.from + ((slider.to - slider.from) * stopOf(at)) / Math.max(labels.length - 1, 1);
  return { xOf, foot: slider.y + 12, down: -1, room: BELOW_SLIDER - 14 };
}

// The dots by columns as wide as one: each its middle, with how many were sure and how many guessed.
function columnsOf(dots, { xOf }) {
  const columns = new Map();
  for (const [at, sure, guessed] of dots) {
    const x = (2 * DOT + 0.4) * Math.round(xOf(at) / (2 * DOT + 0.4));
    const [, ...before] = columns.get(x) ?? [x, 0, 0];
    columns.set(x, [x, before[0] + sure, before[1] + guessed]);
  }
  return [...columns.values()];
}
