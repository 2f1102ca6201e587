// The cells that the server sent: their numbers, and which cell each pixel of a picture shows.

const TYPES = {
  f4: Float32Array,
  f8: Float64Array,
  i1: Int8Array,
  u1: Uint8Array,
  i2: Int16Array,
  u2: Uint16Array,
  i4: Int32Array,
  u4: Uint32Array,
};

// A length, a JSON header of that length, then the arrays it names, each at a multiple of 8.
export function readCells(bytes) {
  const aligned = bytes.slice().buffer;
  const length = new DataView(aligned).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(aligned, 4, length)));
  const arrays = {};
  for (const [name, [type, offset, count]] of Object.entries(header.arrays))
    arrays[name] = new TYPES[type](aligned, offset, count);
  const each = (first, count) => Int32Array.from({ length: count + 1 }, (_, i) => first + i);
  return {
    row_edges: each(header.top, header.rows),
    col_edges: each(header.left, header.cols),
    ...header,
    ...arrays,
  };
}

// The pixel that a cell of the matrix lies in, and the rows and columns it stands for: itself, where true cells are shown. None out of sight.
export function pixelAt(cells, row, col) {
  const { row_edges, col_edges } = cells;
  const [i, j] = [stretchOf(row_edges, row), stretchOf(col_edges, col)];
  if (i < 0 || j < 0) return null;
  return {
    at: i * cells.cols + j,
    i,
    j,
    top: row_edges[i],
    left: col_edges[j],
    rows: row_edges[i + 1] - row_edges[i],
    cols: col_edges[j + 1] - col_edges[j],
  };
}

// Between which two edges a place lies, the first of them included.
function stretchOf(edges, place) {
  if (!(place >= edges[0] && place < edges.at(-1))) return -1;
  let [low, high] = [0, edges.length - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (edges[middle] <= place) low = middle;
    else high = middle;
  }
  return low;
}

// The cell whose value a panel shows at a pixel; none where it is a mean.
export function cellShown(cells, pixel, panel) {
  const at = cells.how ? (panel === "error" ? cells.error_at : cells.x_at)?.[pixel.at] : 0;
  return at === undefined ? null : [pixel.top + Math.floor(at / pixel.cols), pixel.left + (at % pixel.cols)];
}

// What is left out, NaN and Inf, has no error.
export function errorOf(x_hat, x) {
  return Number.isFinite(x) ? Math.fround(x_hat - x) : NaN;
}

// Whether a cell is left out, as far as its x has been sent.
export function leftOut(cell) {
  return cell.x !== undefined && !Number.isFinite(cell.x);
}

// The numbers of one pixel: what the card, the printed values and the keyboard share.
export function cellAt(cells, { at, i, j }) {
  // What is covered has not been sent.
  const cell = {};
  for (const name of cells.open)
    cell[name] = name === "error" && !cells.error ? errorOf(cells.x_hat[at], cells.x[at]) : cells[name][at];
  if (cells.cause) cell.cause = cells.cause[at];
  if (cells.code) cell.code = cells.code[at];
  if (cells.step) cell.step = cells.step[at];
  if (cells.block_of_row) {
    cell.block = cells.block_of_row[i] + cells.block_of_col[j];
    cell.scale = cells.scale[cells.scale_of_row[i] * cells.scale_cols + cells.scale_of_col[j]];
  } else if (cells.block_of_cell) {
    cell.block = cells.block_of_cell[at];
    cell.scale = cells.scale[at];
  }
  return cell;
}

// The error as the view shows it, in float32 as on the server; `view` is the server's entry of `ERROR_VIEWS`.
export function shownError(cell, view) {
  const shown = view.signed ? cell.error : Math.abs(cell.error);
  if (!view.over) return shown;
  const by = Math.abs(cell[view.over]);
  return cell.error === 0 ? 0 : by === 0 ? NaN : Math.fround(shown / by);
}
