// Layers of marks in one frame: lines, discs, bars and words, each at the same places at all stops or at others
// at each of them. What stands where is the server's: see `quantviz/teaching/lessons/dials.py`.

import { paintDisc, paintLine } from "../page/canvas.js";

// CSS pixels free beside the frame: on its left and right, above and below.
const EDGES = [8, 8, 8, 8];
// The thinnest bar, in CSS pixels.
const THINNEST = 0.8;

const DRAWN = { line: drawLine, dots: drawDots, bars: drawBars, rows: drawBars, words: drawWords };

export function paintMarks({ plot, now, context, width, height, colors }) {
  const axes = axesOf(plot, width, height);
  plot.marks.forEach((marks, at) => {
    const [xs, ys] = [plot[`x${at}`], plot[`y${at}`]];
    const count = marks.count;
    // Places that do not move are there once.
    const place = (values, k) => values[values.length > count ? now * count + k : k];
    const places = Array.from({ length: count }, (_, k) => [place(xs, k), place(ys, k)]);
    context.setLineDash(marks.dashed ? [4, 4] : []);
    const labels = marks.labels.length > count ? marks.labels.slice(now * count) : marks.labels;
    DRAWN[marks.draw](context, places, axes, { ...marks, labels }, colors);
  });
  context.setLineDash([]);
}

// From the frame's units to pixels: the axes' functions, and pixels to a unit.
export function axesOf({ frame, equal, edges = EDGES }, width, height) {
  const [left, right, bottom, top] = frame;
  const [before, behind, above, below] = edges;
  let across = (width - before - behind) / (right - left);
  let up = (height - above - below) / (top - bottom);
  if (equal) across = up = Math.min(across, up);
  const [middle, centre] = [(left + right) / 2, (bottom + top) / 2];
  return {
    x: (value) => (before + width - behind) / 2 + (value - middle) * across,
    y: (value) => (above + height - below) / 2 - (value - centre) * up,
    across,
    up,
  };
}

function drawLine(context, places, { x, y }, { color, size }, colors) {
  let part = [];
  const end = () => {
    if (part.length > 1) paintLine(context, part, colors[color], size);
    part = [];
  };
  for (const [across, up] of places) {
    if (Number.isNaN(across) || Number.isNaN(up)) end();
    else part.push([x(across), y(up)]);
  }
  end();
}

function drawDots(context, places, { x, y }, { color, size, hollow }, colors) {
  for (const [across, up] of places) {
    if (Number.isNaN(across) || Number.isNaN(up)) continue;
    if (hollow) paintDisc(context, x(across), y(up), size, colors.surface, colors[color], 2);
    else paintDisc(context, x(across), y(up), size, colors[color]);
  }
}

// Bars of a thickness from their base up, or to the right.
function drawBars(context, places, { x, y, across, up }, { draw, color, size, base }, colors) {
  context.fillStyle = colors[color];
  for (const [value, length] of places) {
    const thick = Math.max(size * (draw === "bars" ? across : up), THINNEST);
    if (draw === "bars")
      context.fillRect(
        x(value) - thick / 2,
        Math.min(y(length), y(base)),
        thick,
        Math.abs(y(length) - y(base)),
      );
    else
      context.fillRect(
        Math.min(x(base), x(value)),
        y(length) - thick / 2,
        Math.abs(x(value) - x(base)),
        thick,
      );
  }
}

function drawWords(context, places, { x, y }, { color, labels, align, nudge: [right, down] }, colors) {
  context.fillStyle = colors[color];
  context.textAlign = align;
  context.textBaseline = "middle";
  const written = [];
  const size = parseFloat(context.font);
  places.forEach(([across, up], k) => {
    const at = { x: x(across) + right, y: y(up) + down, half: context.measureText(labels[k]).width / 2 };
    // One that would lie over another is left out.
    const isFree = written.every(
      (other) => Math.abs(other.y - at.y) >= 0.8 * size || Math.abs(other.x - at.x) >= other.half + at.half,
    );
    if (Number.isNaN(across) || !isFree) return;
    written.push(at);
    context.fillText(labels[k], at.x, at.y);
  });
  context.textBaseline = "alphabetic";
}
