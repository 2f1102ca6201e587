// Sliders for bits and group size, in a line above the dots.

import { paintDisc } from "../page/canvas.js";
import { DISC } from "../page/slider.js";

// Pixels between two of them.
const BETWEEN = 16;

// Bits and group size: a name, a track with a stop for each choice, and the choice.
export function paintSliders(ruling) {
  const { context, colors, bands } = ruling;
  const y = bands.slider / 2;
  ruling.marks.sliders = {};
  for (const { name, left, from, to, handle, title } of slidersOf(ruling)) {
    ruling.fontOf();
    ruling.write(title, left, y + 4, colors.muted, "left");
    context.fillStyle = colors.line;
    context.fillRect(from, y - 2, to - from, 4);
    const stops = handle.labels.length - 1;
    const placeOf = (k) => from + ((to - from) * k) / Math.max(stops, 1);
    context.fillStyle = colors.tooth;
    for (let k = 0; k <= stops; k++) context.fillRect(placeOf(k) - 0.5, y - 4, 1, 8);
    context.fillStyle = colors.handle;
    context.fillRect(from, y - 2, placeOf(handle.at) - from, 4);
    paintDisc(context, placeOf(handle.at), y, DISC / 2, colors.handle);
    ruling.fontOf(600);
    ruling.write(handle.labels[handle.at], to + 14, y + 4, colors.text, "left");
    ruling.marks.sliders[name] = { from, to, x: placeOf(handle.at), y };
  }
}

function slidersOf(ruling) {
  const { axis, picture, words, bands } = ruling;
  const names = ["bits", "group"].filter((name) => picture.handles[name]);
  const all = axis.right + axis.left - 20;
  const width = Math.min((all - BETWEEN * (names.length - 1)) / names.length, 300);
  ruling.fontOf(600);
  return names.map((name, k) => {
    const handle = picture.handles[name];
    const left = 10 + k * (width + BETWEEN);
    const from = left + ruling.widthOf(words[name]) + 16;
    const longest = Math.max(...handle.labels.map((label) => ruling.widthOf(label)));
    const to = left + width - longest - (bands.narrow ? 30 : 16);
    return { name, left, from, to: Math.max(to, from + 40), handle, title: words[name] };
  });
}
