// Which block each cell lies in, from the layout that Python describes.

/**
 * Return a layout ready for use: the number of each cell's block, the cells in the order of their blocks, and
 * where each block begins among them. `spec` is what `layout_spec` of Python gives.
 */
export function makeLayout(spec) {
  const cells = spec.view.reduce((product, n) => product * n, 1);
  const count = spec.grid.reduce((product, n) => product * n, 1);
  const size = spec.block.reduce((product, n) => product * n, 1);
  const numbers = blockNumbers(spec, cells);
  const starts = new Int32Array(count + 1);
  for (let i = 0; i < cells; i++) {
    starts[numbers[i] + 1]++;
  }
  for (let b = 0; b < count; b++) {
    starts[b + 1] += starts[b];
  }
  // In a block cells stay in row-major order, which is that of their places in the tensor.
  const order = new Int32Array(cells);
  const next = starts.slice(0, count);
  for (let i = 0; i < cells; i++) {
    order[next[numbers[i]]++] = i;
  }
  return { shape: spec.shape, grid: spec.grid, tail: spec.tail, cells, count, size, numbers, order, starts };
}

/** Return the number of each cell's block, counted row-major over the grid. */
function blockNumbers(spec, cells) {
  const numbers = new Int32Array(cells);
  if (spec.grid.every((n) => n === 1)) return numbers;
  // The last axis varies quickest: each earlier axis repeats what those after it have.
  let done = 1;
  let blocks = 1;
  for (let axis = spec.view.length - 1; axis >= 0; axis--) {
    const length = spec.view[axis];
    for (let place = length - 1; place >= 0; place--) {
      const first = Math.floor(place / spec.block[axis]) * blocks;
      for (let i = 0; i < done; i++) {
        numbers[place * done + i] = first + numbers[i];
      }
    }
    done *= length;
    blocks *= spec.grid[axis];
  }
  return numbers;
}

/** Return how many zeros fill a block up. */
export function paddingOf(layout, b) {
  return layout.tail === "pad" ? layout.size - (layout.starts[b + 1] - layout.starts[b]) : 0;
}

/** Return whether a block has fewer cells than others, as 1 or 0. */
export function isShort(layout, b) {
  return layout.tail === "short" && layout.starts[b + 1] - layout.starts[b] < layout.size ? 1 : 0;
}
