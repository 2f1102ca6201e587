// Places of X, Wᵀ and Y in plotly's chart, and of their cells.

import { placeOfAxes } from "../panels/geometry.js";
import { ems } from "../panels/numbers.js";

const PARTS = ["x", "w", "y"];
// The size of plotly's printed numbers, in pixels.
const PRINTED = 12;

// The parts of a drawn chart: where each lies, in pixels of the chart, the range of its axes, and its heatmap
// in the document. Empty until plotly has drawn it.
export function partsOf(gd) {
  const full = gd?._fullLayout;
  if (!full?.xaxis3?._length) return [];
  return PARTS.map((name, i) => {
    const x = full[`xaxis${i ? i + 1 : ""}`];
    const y = full[`yaxis${i ? i + 1 : ""}`];
    const heatmap = `.subplot.${x._id}${y._id} .hm`;
    return { name, ...placeOfAxes(x, y), heatmap, values: gd._fullData?.[i]?.z ?? [] };
  });
}

// The part under a place of the window, with the pixel there: null outside of all.
export function partAt(gd, clientX, clientY) {
  const box = gd?.querySelector(".svg-container")?.getBoundingClientRect();
  if (!box) return null;
  const [left, top] = [clientX - box.left, clientY - box.top];
  for (const part of partsOf(gd)) {
    const across = (left - part.left) / part.width;
    const down = (top - part.top) / part.height;
    if (across < 0 || across >= 1 || down < 0 || down >= 1) continue;
    const col = Math.round(part.x[0] + across * (part.x[1] - part.x[0]));
    const row = Math.round(part.y[1] + down * (part.y[0] - part.y[1]));
    if (part.values[row]?.[col] === undefined) return null;
    return { part, row, col };
  }
  return null;
}

// Give the printed numbers of a part one size, at which the longest fits into its cell.
export function fitNumbers({ width, x }, labels, writing) {
  const longest = Math.max(...Array.from(labels, (label) => ems(label.textContent, writing)));
  const room = (writing.wide * width) / (x[1] - x[0]) / longest;
  const size = `${Math.min(Math.max(room, writing.smallest), PRINTED)}px`;
  for (const label of labels) if (label.style.fontSize !== size) label.style.fontSize = size;
}

// The axes of each part by rows and columns: 0 for tokens, 1 for input channels, 2 for outputs.
export const AXES = { x: [0, 1], w: [1, 2], y: [0, 2] };

// A matrix in pixels between edges: each the value of largest magnitude of its cells, as `_pooled` of Python.
export function pooled(matrix, width, rowEdges, colEdges) {
  const [rows, cols] = [rowEdges.length - 1, colEdges.length - 1];
  const values = new Float64Array(rows * cols);
  for (let row = 0; row < rows; row++)
    for (let r = rowEdges[row]; r < rowEdges[row + 1]; r++)
      for (let col = 0, at = row * cols; col < cols; col++, at++) {
        let most = values[at];
        const end = r * width + colEdges[col + 1];
        for (let i = r * width + colEdges[col]; i < end; i++) {
          const value = matrix[i];
          const further = Math.abs(value) - Math.abs(most);
          if (further > 0 || (further === 0 && value > most)) most = value;
        }
        values[at] = most;
      }
  return { values: Float32Array.from(values), rows, cols };
}
