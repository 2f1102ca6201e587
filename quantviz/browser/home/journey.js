// One number's way through the quantizer: divided by the scale it comes down to the comb of codes, there it
// is rounded to a tooth, and multiplied by the scale it comes back up, beside where it was.

import { emptied, paintDisc, paintLine } from "../page/canvas.js";
import { paintComb } from "../ruler/comb.js";
import { noMarks, RulerPainter } from "../ruler/painter.js";
import { Axis, NARROW, teethOf } from "../ruler/places.js";

// When each part of the way ends, of all of it.
const STOPS = { start: 0.08, divided: 0.36, held: 0.44, rounded: 0.6, kept: 0.68, multiplied: 0.94 };
// Milliseconds of the whole way.
export const JOURNEY = 2800;

// How far the way has come at `t`: each part from 0 to 1.
function partsOf(t) {
  const part = (from, to) => smooth(Math.min(Math.max((t - from) / (to - from), 0), 1));
  return {
    divide: part(STOPS.start, STOPS.divided),
    round: part(STOPS.held, STOPS.rounded),
    multiply: part(STOPS.kept, STOPS.multiplied),
    error: part(STOPS.multiplied, 1),
  };
}

function smooth(t) {
  return t * t * (3 - 2 * t);
}

// What has happened at `t`: 0 nothing, 1 divided, 2 rounded, 3 multiplied, 4 all.
export function phaseOf(t) {
  if (t >= 1) return 4;
  return t >= STOPS.kept ? 3 : t >= STOPS.held ? 2 : t >= STOPS.start ? 1 : 0;
}

export class JourneyPainter {
  constructor(canvas, settings) {
    this.canvas = canvas;
    this.painter = new RulerPainter(canvas.getContext("2d"), settings);
    this.colors = settings.colors;
  }

  // Draw the way of `journey` as far as `t`, over the values `others` of the whole tensor.
  paint(journey, t, [lo, hi], others) {
    const { canvas, painter } = this;
    const width = canvas.clientWidth;
    if (!width) return;
    const narrow = width < NARROW;
    const bands = narrow
      ? { narrow, top: 27, tips: 60, line: 73, height: 98 }
      : { narrow, top: 30, tips: 76, line: 89, height: 118 };
    canvas.style.height = `${bands.height}px`;
    const context = emptied(canvas, width, bands.height);
    context.textBaseline = "alphabetic";
    const axis = new Axis([lo, hi], width);
    const zero = journey.levels.indexOf(0);
    const { levels, codes } = journey;
    Object.assign(painter, {
      axis,
      bands,
      held: null,
      words: {},
      teeth: teethOf(levels, axis),
      marks: noMarks(bands),
      picture: { levels, codes, zero, selected: 0, landed: [journey.x_hat], single: null },
    });
    paintComb(painter);
    this.paintValues(axis, bands, others);
    this.paintWay(journey, axis, bands, t);
  }

  // The line of values above the comb, with a mark for each where they are few.
  paintValues(axis, bands, others) {
    const { context } = this.painter;
    context.fillStyle = this.colors.line;
    context.fillRect(axis.left - 14, bands.top - 0.5, axis.right - axis.left + 28, 1);
    context.fillStyle = this.colors.muted;
    context.globalAlpha = 0.7;
    for (const value of others ?? []) context.fillRect(axis.at(value) - 0.5, bands.top - 3, 1, 6);
    context.globalAlpha = 1;
  }

  paintWay(journey, axis, bands, t) {
    const { x, x_hat, scale, ratio, code, error } = journey;
    const { context } = this.painter;
    const { colors } = this;
    const { divide, round, multiply, error: apart } = partsOf(t);
    const [from, to] = [axis.at(x), axis.at(x_hat)];
    const [top, foot] = [bands.top, bands.tips - 7];
    const color = error > 0 ? colors.over : error < 0 ? colors.under : colors.text;
    const down = top + (foot - top) * divide;
    const up = foot - (foot - top) * multiply;
    const along = from + (to - from) * round;
    // What lies behind the bead.
    const line = (start, end, ink = colors.muted, width = 1.5) =>
      paintLine(context, [start, end], ink, width);
    context.globalAlpha = 0.75;
    context.setLineDash([3, 3]);
    line([from, top], [from, down]);
    if (round) line([from, foot], [along, foot]);
    if (multiply) line([to, foot], [to, up]);
    context.setLineDash([]);
    context.globalAlpha = 1;
    if (apart && from !== to) line([from, top], [from + (to - from) * apart, top], color, 3);
    if (divide) paintDisc(context, from, top, 4.5, colors.surface, colors.muted);
    // The operations stand beside their way, outside of both.
    const outwards = from < to ? -1 : 1;
    const middle = (top + foot) / 2 + 4;
    const by = this.painter.written(scale);
    if (divide) this.beside(`÷ ${by}`, from, middle, outwards, colors.muted, divide);
    if (multiply) this.beside(`× ${by}`, to, middle, -outwards, colors.muted, multiply);
    // The numbers: where they are on their way, then x and x̂ above the line.
    const bead = multiply ? [to, up] : round ? [along, foot] : [from, down];
    const gap = Math.abs(to - from);
    if (divide)
      this.above(this.painter.written(x), from, top, multiply === 1 ? outwards : 0, gap, colors.muted);
    if (multiply === 1) this.above(this.painter.written(x_hat), to, top, -outwards, gap, color, 600);
    else {
      const value = multiply > 0.5 ? x_hat : round > 0.5 ? code : divide > 0.5 ? ratio : x;
      if (divide)
        this.beside(this.painter.written(value), bead[0], bead[1] + 4, -outwards, colors.text, 1, 600);
      else this.above(this.painter.written(x), from, top, 0, 0, colors.text, 600);
    }
    paintDisc(context, ...bead, 6.5, multiply ? color : colors.handle, colors.surface);
  }

  // Words beside a place, on the side `way`; on the other one where the ruler ends.
  beside(words, x, y, way, color, alpha, weight = 400) {
    const { painter } = this;
    painter.fontOf(weight);
    const width = painter.widthOf(words) + 12;
    const side = way > 0 ? (x + width < this.canvas.clientWidth ? 1 : -1) : x - width > 0 ? -1 : 1;
    painter.context.globalAlpha = alpha;
    painter.label(words, x + 11 * side, y, color, side > 0 ? "left" : "right");
    painter.context.globalAlpha = 1;
  }

  // A number above the line of values, out of the way of another one that is `gap` away.
  above(words, x, y, way, gap, color, weight = 400) {
    const { painter } = this;
    painter.fontOf(weight);
    const half = painter.widthOf(words) / 2;
    const width = this.canvas.clientWidth;
    const place = Math.min(Math.max(x + way * Math.max(half + 3 - gap / 2, 0), half + 2), width - half - 2);
    painter.label(words, place, y - 10, color, "center");
  }
}
