// Where a learner expects what a drag is to find: a dashed line over the axis, or a ring on a slider's stop.

const DASHES = [5, 4];
const WORDS_SIZE = 12;
// Pixels between the line and its words.
const BESIDE = 5;

export function paintMark(ruling) {
  const { picture, context, colors } = ruling;
  const { mark } = picture;
  if (!mark || mark.at === null) return;
  context.strokeStyle = colors.text;
  context.lineWidth = 2;
  if (mark.on === "axis") paintLine(ruling, mark.at);
  else paintStop(ruling, mark);
}

// Its words stand on the side away from the nearest end of the range, whose knob is as high.
function paintLine(ruling, at) {
  const { picture, context, axis, bands, colors, words, marks } = ruling;
  const x = axis.inside(at);
  context.setLineDash(DASHES);
  context.beginPath();
  context.moveTo(x, bands.top + 2);
  context.lineTo(x, picture.curve ? bands.height - 6 : bands.foot);
  context.stroke();
  context.setLineDash([]);
  ruling.fontOf(WORDS_SIZE, 600);
  const nearest = marks.ends.toSorted((a, b) => Math.abs(a - x) - Math.abs(b - x))[0] ?? 0;
  const width = ruling.widthOf(words.mark) + BESIDE;
  const fitsLeft = x - width > 2;
  const fitsRight = x + width < axis.left + axis.right - 2;
  const toLeft = nearest > x ? fitsLeft : !fitsRight;
  const side = toLeft ? -BESIDE : BESIDE;
  ruling.label(words.mark, x + side, bands.top + 12, colors.text, toLeft ? "right" : "left");
}

function paintStop({ context, bands, picture, marks }, { on, at }) {
  // Of a stop that is no longer there.
  if (at < 0) return;
  const { from, to, y } = marks.sliders[on];
  const stops = picture.handles[on].labels.length - 1;
  const x = from + ((to - from) * at) / Math.max(stops, 1);
  context.beginPath();
  context.arc(x, y, bands.narrow ? 12 : 10, 0, 2 * Math.PI);
  context.stroke();
}
