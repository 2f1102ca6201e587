// The keyboard: arrow keys move from cell to cell.

import { arrowStep } from "../page/keys.js";
import { cellShown, pixelAt } from "./cells.js";
import { cellBox, clamp } from "./geometry.js";
import { panelsOf } from "./layout.js";
import { pointTogether, showCard } from "./hover.js";
import { selectCell } from "./clicks.js";

export function onArrowKey(bridge, event) {
  const step = arrowStep(event);
  const { cells } = bridge;
  if (!step || !cells || event.shiftKey) return;
  event.preventDefault();
  const here = bridge.selected && pixelAt(cells, ...bridge.selected);
  const [i, j] = here
    ? [clamp(here.i + step[0], 0, cells.rows - 1), clamp(here.j + step[1], 0, cells.cols - 1)]
    : [0, 0];
  const pixel = pixelAt(cells, cells.row_edges[i], cells.col_edges[j]);
  selectCell(bridge, cellShown(cells, pixel, "x") ?? [pixel.top, pixel.left], 250);
  const frame = bridge.gd.querySelector(".svg-container").getBoundingClientRect();
  const panel = panelsOf(bridge).at(cells.how ? 0 : -1);
  const box = cellBox(panel, pixel);
  pointTogether(bridge, pixel);
  if (box)
    showCard(bridge, pixel, panel.name, frame.left + box.left + box.width, frame.top + box.top + box.height);
}
