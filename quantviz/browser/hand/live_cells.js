// The cells of the panels as they are while a hand moves something, in the shape of those that the server
// sends.

// The cells of `sent`, with values of a result in place of the server's. `places` says which place of the
// flattened tensor each cell of the picture is.
export function liveCells(sent, result, variant, places) {
  const picked = (values) => values.constructor.from(places, (place) => values[place]);
  const { open } = sent;
  const live = { ...sent, rows: sent.rows, cols: sent.cols };
  // What only the server can say of a cell is not told meanwhile.
  delete live.cause;
  for (const name of ["block_of_row", "block_of_col", "scale_of_row", "scale_of_col"]) delete live[name];
  if (open.includes("x")) live.x = picked(result.x);
  if (open.includes("q")) {
    const codes = picked(result.q);
    live.q = variant.decoded ? Float32Array.from(codes, (code) => variant.decoded[code]) : codes;
    if (sent.code) live.code = codes;
  }
  if (open.includes("x_hat")) live.x_hat = picked(result.x_hat);
  if (open.includes("error")) live.error = picked(result.error);
  live.step = Float32Array.from(places, (place) => result.step[place]);
  live.blockOf = picked(result.block);
  if (sent.scale) {
    live.block_of_cell = live.blockOf;
    live.scale = Float64Array.from(live.blockOf, (block) => result.blocks.scale[block]);
    live.grid = variant.layout.grid_shape;
  }
  live.scales = { ...sent.scales };
  if (live.scales.q && variant.code_range) {
    const [lo, hi] = variant.code_range;
    live.scales.q = scaled(sent.scales.q, lo, hi);
  }
  return live;
}

const kept = new WeakMap();

// The same colours between other ends; the same object again for the same ends, by which shades are kept.
function scaled(scale, lo, hi) {
  if (scale.lo === lo && scale.hi === hi) return scale;
  if (!kept.has(scale)) kept.set(scale, new Map());
  const known = kept.get(scale);
  const key = `${lo} ${hi}`;
  if (!known.has(key)) known.set(key, { ...scale, lo, hi });
  return known.get(key);
}
