// The cells of the panels as they are while a hand moves something, in the shape of those that the server
// sends.

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
