// Where the panels lie on the screen, and what lies under a point of the screen.

import { cellShown, pixelAt } from "./cells.js";
import { clamp, placeIn, placeOfAxes, sharesOf, within } from "./geometry.js";

// Whether plotly has drawn all axes of a chart.
export function drawn(layout) {
  const count = layout?.meta?.panels?.length;
  return Boolean(count && layout[count > 1 ? `xaxis${count}` : "xaxis"]?._length);
}

// What a picture tells of: a tensor, and which panels are open. The numbers of another one are not to be seen
// over it.
export function subjectOf(meta) {
  return `${meta.tensor} ${meta.open}`;
}

// The axis ranges in sight: columns from x[0] to x[1], rows from y[1] down to y[0].
export function sightOf(bridge) {
  const { xaxis, yaxis } = bridge.gd._fullLayout;
  return { x: [...xaxis.range], y: [...yaxis.range] };
}

// The visible panels, in pixels of the chart.
export function panelsOf(bridge) {
  const layout = bridge.gd?._fullLayout;
  if (!drawn(layout)) return [];
  const single = bridge.meta.arrangement === "single";
  return bridge.meta.panels
    .map((name, i) => {
      const x = layout[i ? `xaxis${i + 1}` : "xaxis"];
      const y = layout[i ? `yaxis${i + 1}` : "yaxis"];
      return { name, ...placeOfAxes(x, y) };
    })
    .filter((panel) => !single || panel.name === bridge.panel);
}

// A point of the browser window in pixels of the chart; empty while there is no chart.
export function pixelUnder(bridge, clientX, clientY) {
  const layout = bridge.gd?._fullLayout;
  const frame = bridge.gd?.querySelector(".svg-container")?.getBoundingClientRect();
  if (!layout || !frame?.width) return {};
  return {
    px: ((clientX - frame.left) * layout.width) / frame.width,
    py: ((clientY - frame.top) * layout.height) / frame.height,
  };
}

// The panel under a point of the browser window, and where in it, as shares from 0 to 1.
export function panelUnder(bridge, clientX, clientY) {
  const { px, py } = pixelUnder(bridge, clientX, clientY);
  for (const panel of panelsOf(bridge)) {
    const share = sharesOf(panel, px, py);
    if (within(share)) return { panel, share };
  }
  return null;
}

// What is shown under a point of the browser window: the panel, the cell, and the pixel it lies in.
export function cellUnder(bridge, clientX, clientY) {
  const found = panelUnder(bridge, clientX, clientY);
  const { cells } = bridge;
  if (!found || !cells) return null;
  const { row, col } = placeIn(sightOf(bridge), found.share);
  const cell = [
    clamp(Math.round(row), 0, bridge.meta.rows - 1),
    clamp(Math.round(col), 0, bridge.meta.cols - 1),
  ];
  const pixel = pixelAt(cells, ...cell);
  return pixel && { panel: found.panel.name, pixel, cell: cellShown(cells, pixel, found.panel.name) ?? cell };
}
