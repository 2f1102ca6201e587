// Presses of a mouse, a finger or a key: a click or an arrow selects a cell, a drag zooms to the box drawn.

import { SHARED } from "../page/component.js";
import { arrowStep } from "../page/keys.js";
import { cellShown, pixelAt } from "./cells.js";
import { boxOf, clamp, placeIn, sameWindow, sharesOf } from "./geometry.js";
import { leaveCell, pointTogether, showCard } from "./hover.js";
import { cellUnder, panelUnder, panelsOf, pixelUnder, sightOf } from "./layout.js";
import { drawOverlay } from "./overlay.js";
import { aimAt, showWhole } from "./zoom.js";

// Milliseconds within which a picture is drawn again: a click on the old one waits so long.
const DRAWN_WITHIN = 4000;

export function onPointerDown(bridge, event) {
  bridge.early = null;
  // From the first press on, do not restore an earlier zoom.
  bridge.adopted = -Infinity;
  if (event.button || !event.isPrimary || event.target.closest?.(".modebar")) return;
  const under = bridge.gd && panelUnder(bridge, event.clientX, event.clientY);
  bridge.press = {
    x: event.clientX,
    y: event.clientY,
    at: event.timeStamp,
    touch: event.pointerType === "touch",
    under,
    sight: under && sightOf(bridge),
  };
  if (!bridge.press.touch) leaveCell(bridge);
}

// The browser counts clicks as the person's system does, however busy the page is; plotly compares the times
// at which it came to hear of them.
export function onMouseDown(bridge, event) {
  if (bridge.press) bridge.press.second = event.detail === 2;
}

export function onPointerUp(bridge, event) {
  const { press } = bridge;
  bridge.press = null;
  if (!press || !event.isPrimary) return;
  const far = Math.hypot(event.clientX - press.x, event.clientY - press.y);
  // A drag is a zoom; a long press belongs to the phone.
  if (far > (press.touch ? 10 : 4)) return drewBox(bridge, press, event);
  if (event.timeStamp - press.at > 900) return;
  const found = cellUnder(bridge, press.x, press.y);
  if (!found) return keepEarlyClick(bridge, press);
  selectCell(bridge, found.cell, 0);
  // Arrow keys continue from the cell that was clicked.
  if (!press.touch) (bridge.gd.closest(".stPlotlyChart") ?? bridge.gd).focus({ preventScroll: true });
  if (!press.touch && press.second) showWhole(bridge);
  if (press.touch) {
    const again = event.timeStamp - (bridge.tapped ?? -Infinity) < 350;
    bridge.tapped = event.timeStamp;
    if (again) return showWhole(bridge);
    pointTogether(bridge, found.pixel);
    showCard(bridge, found.pixel, found.panel, press.x, press.y, true);
    bridge.later("touch", 3500, () => leaveCell(bridge));
  }
}

// While a chart is drawn again its old picture is in sight, and a person clicks on that: the click waits.
function keepEarlyClick(bridge, { x, y }) {
  if (!bridge.container || (bridge.gd && bridge.cells)) return;
  const { left, top } = bridge.container.getBoundingClientRect();
  bridge.early = { x: x - left, y: y - top, at: performance.now(), extent: bridge.extent };
}

export function takeEarlyClick(bridge) {
  const { early } = bridge;
  if (!early || !bridge.gd || !bridge.cells) return;
  bridge.early = null;
  // In a picture of another part, or of another matrix, another cell is there.
  if (early.extent && !sameExtent(early.extent, extentOf(bridge))) return;
  if (performance.now() - early.at > DRAWN_WITHIN) return;
  const { left, top } = bridge.container.getBoundingClientRect();
  const found = cellUnder(bridge, left + early.x, top + early.y);
  if (found) selectCell(bridge, found.cell, 0);
}

// The matrix of a chart and the window of it in the picture.
export function extentOf({ meta }) {
  return { matrix: { top: 0, left: 0, rows: meta.rows, cols: meta.cols }, window: meta.window };
}

function sameExtent(a, b) {
  return sameWindow(a.matrix, b.matrix) && sameWindow(a.window, b.window);
}

// Plotly takes a low or narrow box for a zoom along one axis only. A wide matrix is a low picture, so zoom to
// the box as it was drawn.
function drewBox(bridge, press, event) {
  const [wide, high] = [Math.abs(event.clientX - press.x), Math.abs(event.clientY - press.y)];
  if (press.touch || event.shiftKey || !press.under || !bridge.gd) return;
  if (Math.min(wide, high) < 4 || Math.max(wide, high) < 8 || Math.min(wide, high) >= 20) return;
  const { px, py } = pixelUnder(bridge, event.clientX, event.clientY);
  const { across, down } = sharesOf(press.under.panel, px, py);
  const ends = [press.under.share, { across: clamp(across, 0, 1), down: clamp(down, 0, 1) }].map((share) =>
    placeIn(press.sight, share),
  );
  const [cols, rows] = [ends.map(({ col }) => col), ends.map(({ row }) => row)];
  // After plotly's own zoom.
  setTimeout(
    () =>
      bridge.gd &&
      aimAt(bridge, { x: [Math.min(...cols), Math.max(...cols)], y: [Math.max(...rows), Math.min(...rows)] }),
    0,
  );
}

function selectCell(bridge, cell, wait) {
  showSelected(bridge, cell, wait);
  bridge.later("send", wait, () => bridge.send("cell", { row: cell[0], col: cell[1] }));
}

// Show a cell as the selected one before the server is asked, after `wait` milliseconds.
export function showSelected(bridge, cell, wait) {
  mark(bridge, cell);
  SHARED.hands.get(bridge.chart)?.pageChoice.select(cell);
  // If no answer comes, the mark returns to the cell that the server knows.
  bridge.later("pending", wait + 4000, () => {
    mark(bridge, null);
    const choice = SHARED.hands.get(bridge.chart)?.pageChoice;
    if (choice && choice.selected !== null) choice.leave();
  });
}

// Mark a cell in all charts of a group, until the server answers.
function mark(bridge, cell) {
  for (const each of [bridge, ...bridge.companions]) {
    each.pending = cell;
    drawOverlay(each);
  }
}

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
  const { top, left, rows, cols } = pixel;
  const box = boxOf(panel, [top, top + rows], [left, left + cols]);
  pointTogether(bridge, pixel);
  if (box)
    showCard(bridge, pixel, panel.name, frame.left + box.x + box.width, frame.top + box.y + box.height);
}
