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

// The weights when so many columns are rounded: W less the pushes of these columns. `known.weights` and
// `known.pushed` are rows × columns.
export function weightsAt(known, done) {
  const { rows, columns, weights, pushed } = known;
  const now = Float64Array.from(weights);
  for (let column = 0; column < done; column++) {
    const row = factorRow(known, column);
    for (let i = 0; i < rows; i++) {
      const push = pushed[i * columns + column];
      if (push === 0) continue;
      const start = i * columns;
      for (let k = column; k < columns; k++) now[start + k] -= push * row[k];
    }
  }
  return now;
}

// Moves weights from one moment to another, forwards, or afresh where the other lies before.
export function moved(known, from, done) {
  if (!from || done < from.done) return { done, values: weightsAt(known, done) };
  const { rows, columns, pushed } = known;
  const { values } = from;
  for (let column = from.done; column < done; column++) {
    const row = factorRow(known, column);
    for (let i = 0; i < rows; i++) {
      const push = pushed[i * columns + column];
      for (let k = column; k < columns; k++) values[i * columns + k] -= push * row[k];
    }
  }
  return { done, values };
}
