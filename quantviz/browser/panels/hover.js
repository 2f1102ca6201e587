// The cell under the pointer: its cross-hair and its card.

import { cellAt, cellShown, errorOf, leftOut } from "./cells.js";
import { bitsOf, blockPlace, significant, span } from "./numbers.js";
import { cellUnder, panelsOf } from "./layout.js";
import { drawBands } from "./overlay.js";

export function onPointerMove(bridge, event) {
  if (event.pointerType === "touch") return;
  if (event.buttons || event.target.closest?.(".modebar")) return leaveCell(bridge);
  const { clientX, clientY } = event;
  // Draw once a frame, however often the mouse reports.
  if (bridge.frame) cancelAnimationFrame(bridge.frame);
  bridge.frame = requestAnimationFrame(() => pointAt(bridge, clientX, clientY));
}

function pointAt(bridge, clientX, clientY) {
  bridge.frame = null;
  const found = cellUnder(bridge, clientX, clientY);
  if (!found) return leaveCell(bridge);
  if (found.pixel.at !== bridge.hover?.at) {
    pointTogether(bridge, found.pixel);
  }
  showCard(bridge, found.pixel, found.panel, clientX, clientY);
}

export function leaveCell(bridge) {
  if (bridge.frame) cancelAnimationFrame(bridge.frame);
  bridge.frame = null;
  if (!bridge.hover) return;
  bridge.card.hide();
  pointTogether(bridge, null);
}

// Show the cross-hair at a pixel, or nowhere, in all charts of a group.
export function pointTogether(bridge, pixel) {
  for (const each of [bridge, ...bridge.companions]) {
    each.hover = pixel;
    if (each.overlay) drawBands(each, panelsOf(each));
  }
}

export function showCard(bridge, pixel, panel, clientX, clientY, above = false) {
  const cells = bridge.cells;
  if (!cells || !bridge.data) return bridge.card.hide();
  const labels = { ...bridge.data.labels, ...cells.labels };
  const known = cellAt(cells, pixel);
  const cell = cellShown(cells, pixel, panel);
  const lines = [];
  let told = cells.told;
  let ofAnother = false;
  if (cells.how && pixel.rows * pixel.cols > 1) {
    const what = labels.pixel[cell && panel === "error" ? "largest_error" : cells.how];
    lines.push([
      what.replace("{rows}", span(pixel.top, pixel.rows)).replace("{cols}", span(pixel.left, pixel.cols)),
      null,
    ]);
    // Only the error of the cell with the largest error was sent.
    ofAnother = Boolean(cell && panel === "error");
    if (ofAnother) told = ["error"];
    else if (cell && known.x_hat !== undefined && known.x !== undefined)
      known.error = errorOf(known.x_hat, known.x);
  }
  if (cell) lines.push([`${labels.row} ${cell[0]}, ${labels.col} ${cell[1]}`, null]);
  const first = lines.length;
  lines.push(
    ...told.map((name) => [
      labels[name],
      cells.words?.[name]?.[known[name]] ??
        (name === "error" && !ofAnother && leftOut(known)
          ? cells.writing.none
          : significant(known[name], cells.writing.card, cells.writing)),
    ]),
  );
  if (known.code !== undefined && told.includes("q"))
    lines.splice(first + 1 + told.indexOf("q"), 0, [labels.code, bitsOf(known.code, cells.code_bits)]);
  if (known.scale !== undefined) {
    lines.push(
      [labels.block, blockPlace(known.block, cells.grid) || labels.whole_tensor],
      [labels.scale, significant(known.scale, cells.writing.card, cells.writing)],
    );
  }
  if (known.cause !== undefined) lines.push([labels.cause, labels.causes[known.cause]]);
  bridge.card.show(lines, clientX, clientY, above);
}
