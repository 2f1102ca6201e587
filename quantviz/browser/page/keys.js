// Arrow keys, which go from cell to cell.

const STEPS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

// The step of an arrow key in rows and columns; undefined of another key, and of one pressed with Ctrl, Alt
// or ⌘.
export function arrowStep(event) {
  return event.altKey || event.ctrlKey || event.metaKey ? undefined : STEPS[event.key];
}

// The cell that lies a step from the cell `at` of a matrix; cells are numbered along the rows.
export function cellBeside(at, [down, across], rows, cols) {
  const within = (value, most) => Math.min(Math.max(value, 0), most - 1);
  return within(Math.floor(at / cols) + down, rows) * cols + within((at % cols) + across, cols);
}
