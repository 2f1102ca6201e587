// Return the place along each axis of `shape` of what is the `flat`-th in row-major order.
export function indexIn(shape, flat) {
  const index = [];
  let rest = flat;
  for (const length of shape.toReversed()) {
    index.unshift(rest % length);
    rest = Math.floor(rest / length);
  }
  return index;
}
