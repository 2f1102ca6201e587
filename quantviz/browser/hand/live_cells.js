// The cells of the panels as they are while a hand moves something, in the shape of those that the server
// sends.

import { ROUNDING } from "../arithmetic/rounding.js";
import { shownError } from "../panels/cells.js";
import { scaled } from "../panels/colours.js";
import { stylesOf } from "../panels/styles.js";

// How the codes of Inf and NaN lie in half precision, for `floatOfCode`.
const WITH_INFINITY = 1;

// The cells of `sent`, with values of a result in place of the server's. `places` says which place of the
// flattened tensor each cell of the picture is.
export function liveCells(sent, result, variant, places) {
  const picked = (values) => values.constructor.from(places, (place) => values[place]);
  const { open } = sent;
  const live = { ...sent };
  // What only the server can say of a cell is not told meanwhile.
  delete live.cause;
  for (const name of ["block_of_row", "block_of_col", "scale_of_row", "scale_of_col"]) delete live[name];
  if (open.includes("x")) live.x = picked(result.x);
  if (open.includes("q")) {
    const codes = picked(result.q);
    live.q = valuesOfCodes(codes, variant);
    if (sent.code) live.code = codes;
  }
  if (open.includes("x_hat")) live.x_hat = picked(result.x_hat);
  if (open.includes("error")) live.error = picked(result.error);
  live.step = Float32Array.from(places, (place) => result.step[place]);
  live.blockOf = picked(result.block);
  if (sent.scale) {
    live.block_of_cell = live.blockOf;
    live.scale = Float64Array.from(live.blockOf, (block) => result.blocks.scale[block]);
    live.grid = variant.layout.grid;
  }
  live.scales = { ...sent.scales };
  if (live.scales.q && variant.code_range) {
    const [low, hi] = variant.code_range;
    // Of a picture the code 0 means 0.
    const lo = sent.codes.grey && variant.symmetric ? Math.max(low, 0) : low;
    live.scales.q = scaled(sent.scales.q, lo, hi, lo < 0 && hi > 0 && sent.codes.two_sided);
  }
  return live;
}

// The values that codes stand for in units of the scale; of integers the codes.
function valuesOfCodes(codes, { decoded, half }) {
  if (decoded) return Float32Array.from(codes, (code) => decoded[code]);
  if (!half) return codes;
  const [exponent, mantissa] = half;
  const bias = (1 << (exponent - 1)) - 1;
  const valueOf = (code) => ROUNDING.floatOfCode(code, exponent, mantissa, bias, WITH_INFINITY, true, true);
  return Float32Array.from(codes, valueOf);
}

// The same where a pixel of the picture stands for several cells and shows the one of largest magnitude, or
// of the largest error. `seen` are the rows and columns of cells that `places` has.
export function livePixels(sent, result, variant, places, seen) {
  const { row_edges: rowEdges, col_edges: colEdges, rows, cols } = sent;
  const [shownPlaces, errorPlaces] = [new Int32Array(rows * cols), new Int32Array(rows * cols)];
  const placeAt = (row, col) => places[(row - rowEdges[0]) * seen[1] + col - colEdges[0]];
  for (let i = 0; i < rows; i++)
    for (let j = 0; j < cols; j++) {
      const pixel = i * cols + j;
      const [top, left, bottom, right] = [rowEdges[i], colEdges[j], rowEdges[i + 1], colEdges[j + 1]];
      let [largest, furthest] = [-1, -1];
      // Where all are NaN the first.
      shownPlaces[pixel] = errorPlaces[pixel] = placeAt(top, left);
      for (let row = top; row < bottom; row++)
        for (let col = left; col < right; col++) {
          const place = placeAt(row, col);
          const [size, off] = [Math.abs(result.x[place]), Math.abs(result.error[place])];
          if (size > largest) [largest, shownPlaces[pixel]] = [size, place];
          if (off > furthest) [furthest, errorPlaces[pixel]] = [off, place];
        }
    }
  const live = liveCells(sent, result, variant, shownPlaces);
  if (sent.open.includes("error"))
    live.error = Float32Array.from(errorPlaces, (place) => result.error[place]);
  // Which cells they are is told by the server again.
  delete live.x_at;
  delete live.error_at;
  delete live.blockOf;
  return live;
}

// Let the error's colours reach as far as what they follow: the largest error, or half the largest step.
export function followErrors(live, follows, steps) {
  const { scales } = live;
  const largest = (values) =>
    values.reduce(
      (most, value) => (Math.abs(value) > most && Math.abs(value) < Infinity ? Math.abs(value) : most),
      0,
    );
  let end = null;
  if (follows === "fit") end = largest(shownIn(live, "error")) || 1;
  if (follows === "half_step") end = (largest(steps) || 2) / 2;
  if (end === null || !scales.error) return;
  const lo = live.error_view.signed ? -end : 0;
  scales.error = scaled(scales.error, lo, end, lo < 0);
}

// Print the cells in the styles that the server would choose for them: found for the panels that are seen.
export function printAnew(live) {
  if (!live.styles) return;
  const { writing } = live;
  const names = Object.keys(live.styles);
  live.styles = {};
  for (const name of names) {
    let found = null;
    const get = () => (found ??= stylesOf(printedIn(live, name), writing, name === "x_hat" ? live.x : null));
    Object.defineProperty(live.styles, name, { get, enumerable: true });
  }
}

// The values that are printed into a panel's cells: 0 for an error no larger than float32's own rounding.
function printedIn(live, name) {
  const shown = shownIn(live, name);
  if (name !== "error" || !live.x) return shown;
  const { x, error, rounding } = live;
  return shown.map((value, at) => (Math.abs(error[at]) <= rounding * Math.abs(x[at]) ? 0 : value));
}

// What a panel shows of each cell, in the order of rows.
export function shownIn(live, name) {
  if (name !== "error") return live[name];
  const { signed, over } = live.error_view;
  if (signed && !over) return live.error;
  live.shownErrors ??= Float32Array.from(live.error, (error, at) =>
    shownError({ error, x: live.x[at], step: live.step?.[at], quiet: live.quiet?.[at] }, live.error_view),
  );
  return live.shownErrors;
}
