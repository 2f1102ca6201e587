// What is drawn over the multiplication: the lines that an output is made of, and its mark.

import { element } from "../page/elements.js";
import { stretchOf } from "../panels/cells.js";
import { boxOf } from "../panels/geometry.js";
import { AXES, partsOf } from "./parts.js";

export function newOverlay() {
  const overlay = element("svg", { class: "qv-lights", "aria-hidden": "true" });
  overlay.style.cssText =
    "position: absolute; inset: 0; width: 100%; height: 100%; pointer-events: none; overflow: hidden;";
  return overlay;
}

// Light the rows and columns that the pixels of three axes name, `null` for none; and mark the selected cell.
export function drawLights(overlay, gd, { pixels, edges, selected, heldRows, loud, channels, colors, hand }) {
  overlay.replaceChildren();
  const parts = partsOf(gd);
  const marked = selected && [
    stretchOf(edges[0], selected[0]),
    selected[2] === null ? -1 : stretchOf(edges[1], selected[2]),
    stretchOf(edges[2], selected[1]),
  ];
  for (const part of parts) {
    const [rowAxis, colAxis] = AXES[part.name];
    const all = { rows: [-0.5, part.values.length], cols: [-0.5, part.values[0].length] };
    if (part.name !== "w") markHeld(overlay, part, heldRows, all.cols, colors);
    if (part.name === "x" && loud !== null) {
      const tower = ((loud + 0.5) / channels) * gd._fullLayout.width;
      markLoud(overlay, part, stretchOf(edges[1], loud), tower, all.rows, colors);
    }
    if (pixels) lightPart(overlay, part, pixels[rowAxis], pixels[colAxis], all, colors);
    if (!marked) continue;
    const [row, col] = [marked[rowAxis], marked[colAxis]];
    if (part.name === "y") markBox(overlay, boxOf(part, [row, row + 1], [col, col + 1], 7), colors, row, col);
    else markLine(overlay, part, rowAxis === 0 ? row : -1, colAxis === 2 ? col : -1, all, colors);
    // The input and the weight that a hand can drag.
    if (hand && part.name !== "y")
      markDragged(overlay, boxOf(part, [row, row + 1], [col, col + 1], 7), colors);
  }
}

// Pixels from X up over its name and the legend, where the way to it ends.
const OVER_WORDS = 34;

// The loud channel's column in X, and the way there from its tower in the skyline above.
function markLoud(overlay, part, col, tower, rows, colors) {
  const box = col >= 0 && boxOf(part, rows, [col, col + 1], 2);
  if (!box) return;
  const middle = box.x + box.width / 2;
  const end = part.top - OVER_WORDS;
  const d = `M${tower} 0V6H${middle}V${end}m-5 -7l5 7l5 -7`;
  const line = { fill: "none", stroke: colors.held, "stroke-width": 1.5, class: "qv-loud-way" };
  overlay.append(element("path", { d, ...line }));
  add(overlay, box, { fill: "none", stroke: colors.held, "stroke-width": 1, "stroke-dasharray": "3 4" });
}

function lightPart(overlay, part, row, col, all, colors) {
  const fill = { fill: colors.text, "fill-opacity": 0.16 };
  const edge = { fill: "none", stroke: colors.mark, "stroke-width": 1 };
  const some = (pixel) => pixel !== null && pixel >= 0;
  if (some(row)) add(overlay, boxOf(part, [row, row + 1], all.cols, 3), fill);
  if (some(col)) add(overlay, boxOf(part, all.rows, [col, col + 1], 3), fill);
  if (some(row) && some(col)) add(overlay, boxOf(part, [row, row + 1], [col, col + 1], 5), edge);
}

// A thin mark beside each token that is held back.
function markHeld(overlay, part, rows, cols, colors) {
  const marks = rows.map((each) => boxOf(part, each, cols)).filter(Boolean);
  const lines = marks.map(({ y, height }) => `M${part.left - 5} ${y}h3v${height}h-3z`);
  if (lines.length)
    overlay.append(element("path", { d: lines.join(""), fill: colors.held, class: "qv-held" }));
}

// The token's row in X, or the output's column in Wᵀ, of the selected cell.
function markLine(overlay, part, row, col, all, colors) {
  const line = { fill: "none", stroke: colors.mark, "stroke-width": 1.25, "stroke-opacity": 0.8 };
  if (row >= 0) add(overlay, boxOf(part, [row, row + 1], all.cols, 4), { ...line, class: "qv-line" });
  if (col >= 0) add(overlay, boxOf(part, all.rows, [col, col + 1], 4), { ...line, class: "qv-line" });
}

function markDragged(overlay, box, colors) {
  add(overlay, box, { fill: "none", rx: 2, class: "qv-handle", stroke: colors.held, "stroke-width": 2.5 });
}

function markBox(overlay, box, colors, row, col) {
  if (row < 0 || col < 0) return;
  add(overlay, box, { fill: "none", rx: 1, stroke: colors.halo, "stroke-width": 4 });
  add(overlay, box, { fill: "none", rx: 1, class: "qv-mark", stroke: colors.mark, "stroke-width": 2 });
}

function add(overlay, box, attributes) {
  if (box) overlay.append(element("rect", { ...box, ...attributes }));
}
