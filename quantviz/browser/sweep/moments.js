// The moments of GPTQ's sweep, computed from what the server sends once: the weights before it, the error of
// each column over the factor's diagonal, and the factor's rows. Pure functions.

// The factor is upper triangular: row j has its entries from column j on, as 16-bit shares of its largest.
export function factorRow(known, column) {
  const { columns, factor, largest } = known;
  const start = column * columns - (column * (column - 1)) / 2;
  const row = new Float64Array(columns);
  const unit = largest[column] / 32767;
  for (let k = column; k < columns; k++) row[k] = factor[start + k - column] * unit;
  return row;
}

// Move weights from one moment to another: forwards, or afresh where the other lies before. When so many columns
// are rounded they are W less the pushes of these; `known.weights` and `known.pushed` are rows × columns.
export function moved(known, from, done) {
  const { rows, columns, weights, pushed } = known;
  const start = from && done >= from.done ? from : { done: 0, values: Float64Array.from(weights) };
  const { values } = start;
  for (let column = start.done; column < done; column++) {
    const row = factorRow(known, column);
    for (let i = 0; i < rows; i++) {
      const push = pushed[i * columns + column];
      if (push === 0) continue;
      for (let k = column; k < columns; k++) values[i * columns + k] -= push * row[k];
    }
  }
  return { done, values };
}
