// What is drawn over the chart: the values, the cross-hair and the mark of the selected cell.

import { SHARED } from "../page/component.js";
import { cellBox, cellSize, windowOf } from "./geometry.js";
import { panelsOf, sightOf } from "./layout.js";
import { inkOn, printsIn } from "./printed_values.js";

const SVG = "http://www.w3.org/2000/svg";

export function element(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

export function drawOverlay(bridge) {
  if (!bridge.overlay || !bridge.gd) return;
  const panels = panelsOf(bridge);
  drawValues(bridge, panels);
  drawBands(bridge, panels);
  drawMarks(bridge, panels);
  sharpenImages(bridge, panels);
  if (panels.length) SHARED.maps.get(bridge.chart)?.show(windowOf(sightOf(bridge), bridge.meta));
}

// A rectangle as attributes of an element.
function placeOn({ left, top, width, height }) {
  return { x: left, y: top, width, height };
}

function drawMarks(bridge, panels) {
  const { marks } = bridge.layers;
  marks.replaceChildren();
  if (!bridge.selected || !bridge.data) return;
  for (const panel of panels) {
    const [row, col] = bridge.selected;
    const box = cellBox(panel, { top: row, left: col, rows: 1, cols: 1 }, true);
    if (!box || !bridge.meta.open.includes(panel.name)) continue;
    const place = { ...placeOn(box), fill: "none", rx: 1 };
    marks.append(
      element("rect", { ...place, stroke: bridge.data.colors.halo, "stroke-width": 4 }),
      element("rect", { ...place, class: "qv-mark", stroke: bridge.data.colors.mark, "stroke-width": 2 }),
    );
  }
}

export function drawBands(bridge, panels) {
  const { bands } = bridge.layers;
  bands.replaceChildren();
  if (!bridge.hover || !bridge.data) return;
  const fill = { fill: bridge.data.colors.text, "fill-opacity": 0.13 };
  const line = { stroke: bridge.data.colors.mark, "stroke-width": 1 };
  for (const panel of panels) {
    const box = cellBox(panel, bridge.hover);
    if (!box) continue;
    bands.append(
      element("rect", { x: panel.left, y: box.top, width: panel.width, height: box.height, ...fill }),
      element("rect", { x: box.left, y: panel.top, width: box.width, height: panel.height, ...fill }),
      element("rect", { ...placeOn(box), class: "qv-cross", fill: "none", ...line }),
    );
  }
}

// Values are text elements of our own: plotly's `texttemplate` takes longer than all other drawing together.
function drawValues(bridge, panels) {
  const { values } = bridge.layers;
  values.replaceChildren();
  if (!panels.length) return;
  values.append(...printsIn(bridge, panels).map((print) => valueGroup(bridge, print)));
}

function valueGroup(bridge, { panel, scale, size, labels }) {
  const group = element("g", {
    "font-size": size.toFixed(1),
    "text-anchor": "middle",
    "font-family": bridge.data.colors.font,
    style: "font-variant-numeric: tabular-nums",
  });
  for (const { x, y, value, label } of labels) {
    const text = element("text", {
      x: x.toFixed(1),
      y: (y + size * 0.35).toFixed(1),
      fill: inkOn(scale, value),
    });
    text.textContent = label;
    group.append(text);
  }
  group.dataset.panel = panel.name;
  return group;
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
