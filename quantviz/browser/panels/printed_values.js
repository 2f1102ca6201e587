// The values printed into the cells: which fit, how large, and in which colour.

import { cellAt, leftOut, pixelAt, shownError } from "./cells.js";
import { ems, numberText } from "./numbers.js";
import { inSight } from "./geometry.js";

// Print at most so many cells.
const MOST_PRINTED = 400;
// The largest font size in pixels; in the high cells of a large window digits grow with them, up to another.
const LARGEST_PRINT = 12;
const OF_HIGH_CELLS = 0.12;
const LARGEST_IN_HIGH_CELLS = 24;

// What is printed in each panel that has room for it.
export function printsIn(bridge, panels) {
  const { cells } = bridge;
  if (!cells) return [];
  // What people compare is printed together or not at all.
  return cells.together.flatMap((names) => {
    const prints = panels
      .filter((panel) => names.includes(panel.name) && cells.open.includes(panel.name))
      .map((panel) => printed(panel, cells, bridge.meta));
    return prints.every(Boolean) ? prints : [];
  });
}

// What is printed into one panel's cells: all in the first of the server's styles in which they fit. null
// where they fit in none, or where there are too many to read.
function printed(panel, cells, { enlarged, least_digit }) {
  if (cells.how) return null;
  // What is read from the back of a room is printed large or not at all.
  const writing = { ...cells.writing, smallest: Math.max(cells.writing.smallest, least_digit ?? 0) };
  const [left, right] = inSight(panel.x, cells.left, cells.cols);
  const [top, bottom] = inSight([panel.y[1], panel.y[0]], cells.top, cells.rows);
  if ((right - left + 1) * (bottom - top + 1) > MOST_PRINTED) return null;
  const width = panel.width / (panel.x[1] - panel.x[0]);
  const height = panel.height / (panel.y[0] - panel.y[1]);
  const values = [];
  for (let row = top; row <= bottom; row++) {
    for (let col = left; col <= right; col++) {
      const x = panel.left + (col - panel.x[0]) * width;
      const y = panel.top + (row - panel.y[1]) * height;
      // A cell cut by the edge is left empty.
      if (x - panel.left < width * 0.4 || panel.left + panel.width - x < width * 0.4) continue;
      if (y - panel.top < height * 0.4 || panel.top + panel.height - y < height * 0.4) continue;
      values.push({ x, y, row, col, ...valueIn(panel.name, cellAt(cells, pixelAt(cells, row, col)), cells) });
    }
  }
  const grown = Math.min(OF_HIGH_CELLS * height, LARGEST_IN_HIGH_CELLS);
  const largest = Math.max(LARGEST_PRINT * enlarged, grown);
  const fit = fitting(values, cells.styles[panel.name], { width, height }, largest, writing);
  return fit && { panel, scale: cells.scales[panel.name], ...fit };
}

// The value of a cell that a panel shows; `none` where there is no such value.
function valueIn(name, cell, cells) {
  if (name !== "error") return { value: cell[name] };
  const value = shownError(cell, cells.error_view);
  // An error relative to 0, or of a value left out, does not exist: print that there is none, not NaN.
  if (Number.isNaN(value) && (!Number.isNaN(cell.error) || leftOut(cell))) return { value, none: true };
  // An error as small as float32 rounding is printed as 0; the card tells its digits.
  const rounded = cell.x !== undefined && Math.abs(cell.error) <= cells.rounding * Math.abs(cell.x);
  return { value, told: rounded ? 0 : value };
}

// The labels of values in cells of so many pixels, the size of their font, and the style: the first in which
// all fit, null where they fit in none.
export function fitting(values, styles, { width, height }, most, writing) {
  const tallest = height * writing.tall;
  if (tallest < writing.smallest || !values.length) return null;
  for (const style of styles) {
    const labels = values.map((each) => ({
      ...each,
      label: each.none ? writing.none : numberText(each.told ?? each.value, style, writing),
    }));
    const widest = Math.max(...labels.map(({ label }) => ems(label, writing)));
    const size = Math.min(most, tallest, (width * writing.wide) / widest);
    if (size >= writing.smallest) return { labels, size, style };
  }
  return null;
}
