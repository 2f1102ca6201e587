// Where a learner expects what a drag is to find: a dashed line over the axis, or a ring on a slider's stop.

import { paintLine } from "../page/canvas.js";

const DASHES = [5, 4];
// Pixels between the line and its words.
const BESIDE = 5;
// How far down another place for them is looked for.
const DOWN = 4;

export function paintMark(ruling) {
  const { mark } = ruling.picture;
  if (!mark || mark.at === null) return;
  if (mark.on === "axis") paintPlace(ruling, mark.at);
  else paintStop(ruling, mark);
}

// Its words stand at the top, on the side away from the nearest end of the range, whose knob is as high; else
// on the other side or lower. Where all is taken the line stands alone.
function paintPlace(ruling, at) {
  const { picture, context, axis, bands, colors, words, marks } = ruling;
  const x = axis.inside(at);
  const line = [
    [x, bands.top + 2],
    [x, picture.curve ? bands.base : bands.foot],
  ];
  context.setLineDash(DASHES);
  paintLine(context, line, colors.text, 2);
  context.setLineDash([]);
  ruling.fontOf(600);
  const nearest = marks.ends.toSorted((a, b) => Math.abs(a - x) - Math.abs(b - x))[0] ?? 0;
  const sides = nearest > x ? [-1, 1] : [1, -1];
  for (let y = bands.top + 12; y < bands.tips; y += DOWN)
    for (const side of sides) {
      const align = side < 0 ? "right" : "left";
      if (ruling.labelWhereFree(words.mark, x + BESIDE * side, y, colors.text, align)) return;
    }
}

function paintStop({ context, bands, colors, picture, marks }, { on, at }) {
  // Of a stop that is no longer there.
  if (at < 0) return;
  const { from, to, y } = marks.sliders[on];
  const stops = picture.handles[on].labels.length - 1;
  const x = from + ((to - from) * at) / Math.max(stops, 1);
  context.beginPath();
  context.arc(x, y, bands.narrow ? 12 : 10, 0, 2 * Math.PI);
  context.strokeStyle = colors.text;
  context.lineWidth = 2;
  context.stroke();
}
