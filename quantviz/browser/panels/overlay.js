// What is drawn over the chart: the values, the cross-hair and the mark of the selected cell.

import { SHARED } from "../page/component.js";
import { drawChildren, element, setAttribute } from "../page/elements.js";
import { pixelAt } from "./cells.js";
import { boxOf, cellSize, inSight, windowOf } from "./geometry.js";
import { panelsOf, sightOf } from "./layout.js";
import { inkOn } from "./colours.js";
import { printsIn } from "./printed_values.js";

export function drawOverlay(bridge) {
  if (!bridge.overlay || !bridge.gd) return;
  const panels = panelsOf(bridge);
  drawLost(bridge, panels);
  drawValues(bridge, panels);
  drawBands(bridge, panels);
  drawMarks(bridge, panels);
  sharpenImages(bridge, panels);
  if (panels.length) SHARED.maps.get(bridge.chart)?.show(windowOf(sightOf(bridge), bridge.meta));
}

// Cells at least so many pixels wide and high have an empty frame where their value became 0, as wide as this
// share of them.
const LEAST_LOST = 4;
export const LOST = 0.7;
export const LOST_INK = 0.5;

// The empty frames of x̂, as the bars of the front door have them, in one path.
function drawLost(bridge, panels) {
  const { cells, data, layers } = bridge;
  const panel = lostPanel(bridge, panels);
  const make = () => element("path", { class: "qv-lost", fill: "none", "stroke-opacity": LOST_INK });
  drawChildren(layers.lost, panel ? [lostIn(panel, cells)] : [], make, (path, frames) => {
    const { wide, high } = cellSize(panel);
    const at = ([left, top]) => {
      const x = panel.left + (left - panel.x[0]) * wide;
      const y = panel.top + (top - panel.y[1]) * high;
      return `M${x.toFixed(1)} ${y.toFixed(1)}h${LOST * wide}v${LOST * high}h${-LOST * wide}z`;
    };
    setAttribute(path, "d", frames.map(at).join(""));
    setAttribute(path, "stroke", data.colors.text);
  });
}

// The panel of x̂, where it is open and its pixels are cells.
export function lostPanel({ cells, data }, panels) {
  const told = cells && data && !cells.how && cells.x && cells.x_hat;
  return told && panels.find(({ name }) => name === "x_hat" && cells.open.includes(name));
}

// The left and top edges of its frames, in cells.
export function lostIn(panel, cells) {
  const { wide, high } = cellSize(panel);
  if (Math.min(wide, high) < LEAST_LOST) return [];
  const [left, right] = inSight(panel.x, cells.left, cells.cols);
  const [top, bottom] = inSight([panel.y[1], panel.y[0]], cells.top, cells.rows);
  const frames = [];
  for (let row = top; row <= bottom; row++) {
    for (let col = left; col <= right; col++) {
      const { at } = pixelAt(cells, row, col);
      if (!cells.x_hat[at] && cells.x[at] && Number.isFinite(cells.x[at]))
        frames.push([col - LOST / 2, row - LOST / 2]);
    }
  }
  return frames;
}

// Pixels of a mark: a smaller one would be hard to find.
const LEAST_MARK = 6;

function drawMarks(bridge, panels) {
  const make = () => element("rect", { fill: "none", rx: 1 });
  drawChildren(bridge.layers.marks, marksIn(bridge, panels), make, (rect, mark) => {
    for (const [name, value] of Object.entries(mark)) setAttribute(rect, name, value);
  });
}

// The frames around the selected cell as attributes: in each panel one over a wider halo.
function marksIn({ selected, data, meta }, panels) {
  if (!selected || !data) return [];
  const { halo, mark } = data.colors;
  const [row, col] = selected;
  return panels.flatMap((panel) => {
    const place = boxOf(panel, [row, row + 1], [col, col + 1], LEAST_MARK);
    if (!place || !meta.open.includes(panel.name)) return [];
    return [
      { ...place, class: null, stroke: halo, "stroke-width": 4 },
      { ...place, class: "qv-mark", stroke: mark, "stroke-width": 2 },
    ];
  });
}

export function drawBands(bridge, panels) {
  const { bands } = bridge.layers;
  bands.replaceChildren();
  if (!bridge.hover || !bridge.data) return;
  const fill = { fill: bridge.data.colors.text, "fill-opacity": 0.13 };
  const line = { stroke: bridge.data.colors.mark, "stroke-width": 1 };
  for (const panel of panels) {
    const { top, left, rows, cols } = bridge.hover;
    const box = boxOf(panel, [top, top + rows], [left, left + cols]);
    if (!box) continue;
    bands.append(
      element("rect", { ...box, x: panel.left, width: panel.width, ...fill }),
      element("rect", { ...box, y: panel.top, height: panel.height, ...fill }),
      element("rect", { ...box, class: "qv-cross", fill: "none", ...line }),
    );
  }
}

// Values are text elements of our own: plotly's `texttemplate` takes longer than all other drawing together.
function drawValues(bridge, panels) {
  const prints = panels.length ? printsIn(bridge, panels) : [];
  drawChildren(bridge.layers.values, prints, newGroup, (group, print) => writeGroup(group, print, bridge));
}

function newGroup() {
  return element("g", { "text-anchor": "middle", style: "font-variant-numeric: tabular-nums" });
}

function writeGroup(group, { panel, scale, size, labels }, { data }) {
  group.style.visibility = "";
  setAttribute(group, "font-size", size.toFixed(1));
  setAttribute(group, "font-family", data.colors.font);
  setAttribute(group, "data-panel", panel.name);
  drawChildren(group, labels, newText, (text, { x, y, value, label }) => {
    setAttribute(text, "x", x.toFixed(1));
    setAttribute(text, "y", (y + size * 0.35).toFixed(1));
    setAttribute(text, "fill", inkOn(scale, value));
    if (text.firstChild.nodeValue !== label) text.firstChild.nodeValue = label;
  });
}

function newText() {
  const text = element("text", {});
  text.textContent = " ";
  return text;
}

// Average an image that is shown smaller than its pixels, so that no row is lost; keep sharp edges in a
// larger one.
function sharpenImages(bridge, panels) {
  const images = bridge.gd.querySelectorAll(".cartesianlayer .im image");
  if (!images.length || !panels.length) return;
  const [panel] = panels;
  const { shape, window } = bridge.meta;
  const { wide, high } = cellSize(panel);
  const [across, down] = [(wide * window.cols) / shape[1], (high * window.rows) / shape[0]];
  for (const image of images) image.style.imageRendering = Math.min(across, down) < 1 ? "auto" : "pixelated";
}
