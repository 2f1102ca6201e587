// Ranges of the axes, windows of the matrix, and rectangles in pixels. Pure functions.

export function clamp(value, lo, hi) {
  return Math.min(Math.max(value, lo), hi);
}

export function same(a, b) {
  return Boolean(a && b) && a[0] === b[0] && a[1] === b[1];
}

export function close(a, b) {
  return Math.abs(a[0] - b[0]) < 1e-6 && Math.abs(a[1] - b[1]) < 1e-6;
}

// The axis ranges that show a window. Rows run downwards, so the y range falls.
export function rangesOf({ top, left, rows, cols }) {
  return { x: [left - 0.5, left + cols - 0.5], y: [top + rows - 0.5, top - 0.5] };
}

// The window of a matrix that axis ranges show; cells cut by the edge are included.
export function windowOf({ x, y }, { rows, cols }) {
  const [left, right] = inSight(x, 0, cols);
  const [top, bottom] = inSight([y[1], y[0]], 0, rows);
  return { top, left, rows: bottom - top + 1, cols: right - left + 1 };
}

export function sameWindow(a, b) {
  return ["top", "left", "rows", "cols"].every((name) => a[name] === b[name]);
}

// A range made `factor` times as long, so that the place `from` lies at `share` of it. It stays inside the
// matrix and at least one cell long.
export function turned([low, high], factor, from, share, count) {
  const length = clamp((high - low) * factor, Math.min(1, count), count);
  const start = clamp(from - share * length, -0.5, count - 0.5 - length);
  return [start, start + length];
}

export function placeIn({ x, y }, { across, down }) {
  return { col: x[0] + across * (x[1] - x[0]), row: y[1] + down * (y[0] - y[1]) };
}

export function sharesOf(panel, px, py) {
  return { across: (px - panel.left) / panel.width, down: (py - panel.top) / panel.height };
}

export function within({ across, down }) {
  return across >= 0 && across <= 1 && down >= 0 && down <= 1;
}

export function fingers([a, b]) {
  return {
    middle: [(a.clientX + b.clientX) / 2, (a.clientY + b.clientY) / 2],
    apart: Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY),
  };
}

// Lengths as a style has them.
export function inPixels(lengths) {
  return Object.fromEntries(Object.entries(lengths).map(([name, length]) => [name, `${length}px`]));
}

// Pixels of a cell in a panel.
export function cellSize({ x, y, width, height }) {
  return { wide: width / (x[1] - x[0]), high: height / (y[0] - y[1]) };
}

// The rectangle of some rows and columns in a panel, [first, end] each, cut at the panel's edges, as attributes of
// an element; null outside of the panel. It is at least `least` pixels wide and high.
export function boxOf(panel, rows, cols, least = 0) {
  const { wide, high } = cellSize(panel);
  const along = ([first, end], start, size, from, length) => {
    let low = from + (first - 0.5 - start) * size;
    let top = from + (end - 0.5 - start) * size;
    if (top <= from || low >= from + length) return null;
    if (top - low < least) [low, top] = [(low + top - least) / 2, (low + top + least) / 2];
    return [Math.max(low, from), Math.min(top, from + length)];
  };
  const x = along(cols, panel.x[0], wide, panel.left, panel.width);
  const y = along(rows, panel.y[1], high, panel.top, panel.height);
  return x && y && { x: x[0], y: y[0], width: x[1] - x[0], height: y[1] - y[0] };
}

// The first and last index that an axis range shows.
export function inSight([from, to], first, count) {
  const last = first + count - 1;
  const start = clamp(Math.floor(from + 0.5 + 1e-6), first, last);
  return [start, clamp(Math.ceil(to - 0.5 - 1e-6), start, last)];
}

// Where two of plotly's axes lie: their box in pixels of the chart, and their ranges.
export function placeOfAxes(x, y) {
  return {
    left: x._offset,
    top: y._offset,
    width: x._length,
    height: y._length,
    x: [...x.range],
    y: [...y.range],
  };
}
