// The cells that the server sent: their numbers, and which cell each pixel of a picture shows.

import { readPacked } from "../page/component.js";

// Read what `pack_cells` wrote.
export function readCells(bytes) {
  return cellsOf(readPacked(bytes));
}

export function cellsOf(packed) {
  const each = (first, count) => Int32Array.from({ length: count + 1 }, (_, i) => first + i);
  return {
    row_edges: each(packed.top, packed.rows),
    col_edges: each(packed.left, packed.cols),
    ...packed,
  };
}

// The pixel that a cell of the matrix lies in, with the rows and columns it stands for: one of each where
// single cells are shown. null for a cell outside the picture.
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

// The number of the stretch between two edges that a place lies in; -1 outside. A stretch includes its first
// edge.
export function stretchOf(edges, place) {
  if (!(place >= edges[0] && place < edges.at(-1))) return -1;
  let [low, high] = [0, edges.length - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (edges[middle] <= place) low = middle;
    else high = middle;
  }
  return low;
}

// The cell whose value a panel shows at a pixel; null where the pixel shows a mean.
export function cellShown(cells, pixel, panel) {
  const at = cells.how ? (panel === "error" ? cells.error_at : cells.x_at)?.[pixel.at] : 0;
  return at === undefined ? null : [pixel.top + Math.floor(at / pixel.cols), pixel.left + (at % pixel.cols)];
}

// The error in float32. NaN and Inf are left out of quantization and have no error.
export function errorOf(x_hat, x) {
  return Number.isFinite(x) ? Math.fround(x_hat - x) : NaN;
}

// Whether a cell is NaN or Inf. Its x may not have been sent: then this is false.
export function leftOut(cell) {
  return cell.x !== undefined && !Number.isFinite(cell.x);
}

// The numbers of one pixel, for the card and the printed values.
export function cellAt(cells, { at, i, j }) {
  // What is hidden is not in `told`: the server does not send it.
  const cell = {};
  for (const name of cells.told)
    cell[name] = name === "error" && !cells.error ? errorOf(cells.x_hat[at], cells.x[at]) : cells[name][at];
  if (cells.cause) cell.cause = cells.cause[at];
  if (cells.code) cell.code = cells.code[at];
  if (cells.step) cell.step = cells.step[at];
  if (cells.quiet) cell.quiet = cells.quiet[at];
  if (cells.block_of_row) {
    cell.block = cells.block_of_row[i] + cells.block_of_col[j];
    cell.scale = cells.scale[cells.scale_of_row[i] * cells.scale_cols + cells.scale_of_col[j]];
  } else if (cells.block_of_cell) {
    cell.block = cells.block_of_cell[at];
    cell.scale = cells.scale[at];
  }
  return cell;
}

// The error as the view shows it, in float32 as on the server. `view` is an entry of the server's
// `ERROR_VIEWS`.
export function shownError(cell, view) {
  const shown = view.signed ? cell.error : Math.abs(cell.error);
  if (!view.over) return shown;
  const by = Math.abs(cell[view.over]);
  return cell.error === 0 ? 0 : by === 0 ? NaN : Math.fround(shown / by);
}
