// The colours of a panel's values as pixels, on the scale that plotly draws them with.

import { inkOn } from "../panels/printed_values.js";

// What values are printed in.
export const INKS = ["#000000", "#ffffff"];
// A scale has so many shades at most: one more than an eye tells apart.
const SHADES = 1024;

const made = new WeakMap();

// The shades of a scale from its low end to its high one, each a pixel of four bytes.
function shadesOf(scale) {
  let shades = made.get(scale);
  if (shades) return shades;
  shades = new Uint32Array(SHADES + 1);
  const bytes = new Uint8ClampedArray(shades.buffer);
  const { ramp, stops } = scale;
  const channels = ramp.map((colour) => [1, 3, 5].map((from) => parseInt(colour.slice(from, from + 2), 16)));
  let low = 0;
  for (let i = 0; i <= SHADES; i++) {
    const at = i / SHADES;
    while (low < ramp.length - 2 && stops[low + 1] < at) low++;
    const share = (at - stops[low]) / (stops[low + 1] - stops[low]);
    for (let channel = 0; channel < 3; channel++)
      bytes[4 * i + channel] =
        channels[low][channel] + share * (channels[low + 1][channel] - channels[low][channel]);
    bytes[4 * i + 3] = 255;
  }
  made.set(scale, shades);
  return shades;
}

// Write the colour of each value into `pixels`; what is not finite stays clear.
export function colourCells(values, scale, pixels) {
  const shades = shadesOf(scale);
  const { lo, hi } = scale;
  const factor = SHADES / (hi - lo || 1);
  for (let i = 0; i < values.length; i++) {
    const at = (values[i] - lo) * factor;
    // Plotly has no colour for Inf either.
    const place = Math.round(Math.min(Math.max(at, 0), SHADES));
    pixels[i] = Number.isFinite(values[i]) ? shades[place] : 0;
  }
}

const inks = new WeakMap();

// The ink that is read best on a value's colour: found once for each shade.
export function inkFor(scale, value) {
  const { lo, hi } = scale;
  const at = Math.round(Math.min(Math.max((value - lo) / (hi - lo || 1), 0), 1) * SHADES) || 0;
  let known = inks.get(scale);
  if (!known) inks.set(scale, (known = []));
  return (known[at] ??= inkOn(scale, lo + (at / SHADES) * (hi - lo)));
}
