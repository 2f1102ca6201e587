// The values printed into the cells: which fit, how large, and in which colour.

import { cellAt, leftOut, pixelAt, shownError } from "./cells.js";
import { shortenings } from "./numbers.js";
import { clamp, inSight } from "./geometry.js";

// Print at most so many cells.
const MOST_PRINTED = 400;
// The smallest font size in pixels.
const SMALLEST_PRINT = 9;
// The width of a digit as a share of the font size.
export const CHARACTER = 0.52;

// What is printed in each panel that has room for it.
export function printsIn(bridge, panels) {
  const { cells } = bridge;
  if (!cells) return [];
  // People compare x and x̂, so both are printed or neither.
  return [["x", "x_hat"], ["q"], ["error"]].flatMap((names) => {
    const prints = panels
      .filter((panel) => names.includes(panel.name) && cells.open.includes(panel.name))
      .map((panel) => printed(panel, cells, bridge.meta.enlarged));
    return prints.every(Boolean) ? prints : [];
  });
}

// What is printed into one panel's cells, with as many of the server's significant digits as a cell has room
// for. null where a value does not fit, or where there are too many to read.
function printed(panel, cells, enlarged) {
  if (cells.how) return null;
  const { writing } = cells;
  const [left, right] = inSight(panel.x, cells.left, cells.cols);
  const [top, bottom] = inSight([panel.y[1], panel.y[0]], cells.top, cells.rows);
  if ((right - left + 1) * (bottom - top + 1) > MOST_PRINTED) return null;
  const width = panel.width / (panel.x[1] - panel.x[0]);
  const height = panel.height / (panel.y[0] - panel.y[1]);
  const room = Math.floor((width - 3) / (CHARACTER * SMALLEST_PRINT));
  if (height * 0.62 < SMALLEST_PRINT) return null;
  const scale = cells.scales[panel.name];
  const reach = Math.max(Math.abs(scale.lo), Math.abs(scale.hi));
  const labels = [];
  for (let row = top; row <= bottom; row++) {
    for (let col = left; col <= right; col++) {
      const x = panel.left + (col - panel.x[0]) * width;
      const y = panel.top + (row - panel.y[1]) * height;
      // A cell cut by the edge is left empty.
      if (x - panel.left < width * 0.4 || panel.left + panel.width - x < width * 0.4) continue;
      if (y - panel.top < height * 0.4 || panel.top + panel.height - y < height * 0.4) continue;
      const cell = cellAt(cells, pixelAt(cells, row, col));
      const value = panel.name === "error" ? shownError(cell, cells.error_view) : cell[panel.name];
      // An error relative to 0, or of a value left out, does not exist: print that there is none, not NaN.
      const none =
        panel.name === "error" && Number.isNaN(value) && (!Number.isNaN(cell.error) || leftOut(cell));
      // An error as small as float32 rounding is printed as 0; the card tells its digits.
      const rounded =
        panel.name === "error" &&
        cell.x !== undefined &&
        Math.abs(cell.error) <= cells.rounding * Math.abs(cell.x);
      const digits = writing[panel.name !== "q" ? "value" : cells.code ? "decoded" : "code"];
      const label = none
        ? writing.none
        : rounded
          ? "0"
          : shortenings(value, digits, writing).find((text) => text.length <= room);
      // A value too long to print, but too small to matter, must not empty the panel.
      if (label === undefined && !(Math.abs(value) < 1e-3 * reach)) return null;
      labels.push({ x, y, row, col, value, label: label ?? "~0" });
    }
  }
  const longest = Math.max(1, ...labels.map(({ label }) => label.length));
  const size = Math.min(12 * enlarged, (width - 3) / (CHARACTER * longest), height * 0.62);
  return { panel, scale, size, labels };
}

// Black or white, whichever is easier to read on a value's colour.
export function inkOn({ ramp, stops, lo, hi }, value) {
  const at = clamp(Number.isFinite(value) ? (value - lo) / (hi - lo) : 0.5, 0, 1);
  const low = clamp(stops.findIndex((stop) => stop > at) - 1, 0, ramp.length - 2);
  const share = at === 1 ? 1 : (at - stops[low]) / (stops[low + 1] - stops[low]);
  const from = at === 1 ? ramp.length - 2 : low;
  const channel = (colour, i) => parseInt(colour.slice(1 + 2 * i, 3 + 2 * i), 16) / 255;
  const linear = [0, 1, 2].map(
    (i) => (channel(ramp[from], i) + share * (channel(ramp[from + 1], i) - channel(ramp[from], i))) ** 2.2,
  );
  const luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  return luminance > 0.19 ? "#101014" : "#ffffff";
}
