// The colours of a panel's values, on the scale that plotly draws them with: `ramp` are its colours, `stops` where
// along it (0 to 1) they stand, and `lo` and `hi` the values at its ends.

import { kept } from "../page/kept.js";
import { clamp } from "./geometry.js";

// What values are printed in.
export const INKS = ["#000000", "#ffffff"];
// A scale has so many shades at most: one more than an eye tells apart.
const SHADES = 1024;

// What is made once of a scale, or of its colours.
const channels = new WeakMap();
const shades = new WeakMap();
const inks = new WeakMap();
const scales = new WeakMap();

// The red, green and blue of each colour.
function channelsOf(ramp) {
  const parts = (colour) => [1, 3, 5].map((from) => parseInt(colour.slice(from, from + 2), 16));
  return kept(channels, ramp, () => ramp.map(parts));
}

// The red, green and blue of a value's colour; of what is not finite those of the middle.
function colourAt({ ramp, stops, lo, hi }, value) {
  const at = clamp(Number.isFinite(value) ? (value - lo) / (hi - lo) : 0.5, 0, 1);
  const low = clamp(
    stops.findLastIndex((stop) => stop <= at),
    0,
    ramp.length - 2,
  );
  const share = at === 1 ? 1 : (at - stops[low]) / (stops[low + 1] - stops[low]);
  const colours = channelsOf(ramp);
  return colours[low].map((part, i) => part + share * (colours[low + 1][i] - part));
}

// How light a value's colour is, 0 to 1.
export function lightOf(scale, value) {
  const linear = (part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
  const [red, green, blue] = colourAt(scale, value).map((part) => linear(part / 255));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

// Black or white, whichever is easier to read on a value's colour: where both are its contrast is 4.58.
export function inkOn(scale, value) {
  return INKS[lightOf(scale, value) > 0.179 ? 0 : 1];
}

// The same, found once for each shade.
export function inkFor(scale, value) {
  const { lo, hi } = scale;
  const at = Math.round(clamp((value - lo) / (hi - lo || 1), 0, 1) * SHADES) || 0;
  return (kept(inks, scale, () => [])[at] ??= inkOn(scale, lo + (at / SHADES) * (hi - lo)));
}

// The shades of a scale from its low end to its high one, each a pixel of four bytes.
function shadesOf({ ramp, stops }) {
  const found = new Uint32Array(SHADES + 1);
  const bytes = new Uint8ClampedArray(found.buffer);
  const colours = channelsOf(ramp);
  let low = 0;
  for (let i = 0; i <= SHADES; i++) {
    const at = i / SHADES;
    while (low < ramp.length - 2 && stops[low + 1] < at) low++;
    const share = (at - stops[low]) / (stops[low + 1] - stops[low]);
    for (let channel = 0; channel < 3; channel++) {
      const from = colours[low][channel];
      bytes[4 * i + channel] = from + share * (colours[low + 1][channel] - from);
    }
    bytes[4 * i + 3] = 255;
  }
  return found;
}

// Write the colour of each value into `pixels`; what is not finite stays clear.
export function colourCells(values, scale, pixels) {
  const found = kept(shades, scale, shadesOf);
  const { lo, hi } = scale;
  const factor = SHADES / (hi - lo || 1);
  for (let i = 0; i < values.length; i++) {
    const at = (values[i] - lo) * factor;
    // Plotly has no colour for Inf either.
    const place = Math.round(Math.min(Math.max(at, 0), SHADES));
    pixels[i] = Number.isFinite(values[i]) ? found[place] : 0;
  }
}

// The same colours between other ends, the middle one at 0 if `zero`; for the same ends the same scale.
export function scaled(scale, lo, hi, zero) {
  if (scale.lo === lo && scale.hi === hi) return scale;
  const known = kept(scales, scale, () => new Map());
  return kept(known, `${lo} ${hi}`, () => {
    const stops = stopsAround(scale.ramp.length, zero ? -lo / (hi - lo) : 0.5);
    return { ...scale, lo, hi, stops };
  });
}

// Where along a scale each of its colours stands: `stops` of `theme.py`.
function stopsAround(count, middle) {
  const half = count >> 1;
  return Array.from({ length: count }, (_, i) =>
    i <= half ? (middle * i) / half : middle + ((1 - middle) * (i - half)) / half,
  );
}
