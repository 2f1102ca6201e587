// The sums that metrics are made of, and the metrics, by the formulas that Python wrote.

/** Return the moments of a result of `quantizeTensor`, by the names of `Moments` of Python. */
export function momentsOf(result, x = result.x) {
  const { q, x_hat, error, clipped, step, counted, codes } = result;
  const m = { cells: 0, clipped: 0, zeros: 0, zeroed: 0, x: 0, x2: 0, x3: 0, x4: 0, x_hat2: 0, x_x_hat: 0 };
  Object.assign(m, { e: 0, kept_e2: 0, clipped_e2: 0, kept_steps2: 0, clipped_steps2: 0 });
  let largest = -Infinity;
  const counts = new Float64Array(codes[1] - codes[0] + 1);
  for (let i = 0; i < x.length; i++) {
    if (counted && !counted[i]) continue;
    const value = x[i];
    const made = x_hat[i];
    const off = error[i];
    const square = value * value;
    const steps = off === 0 ? 0 : off / step[i];
    m.cells += 1;
    m.zeros += value === 0 ? 1 : 0;
    m.zeroed += made === 0 && value !== 0 ? 1 : 0;
    m.x += value;
    m.x2 += square;
    m.x3 += square * value;
    m.x4 += square * square;
    m.x_hat2 += made * made;
    m.x_x_hat += value * made;
    m.e += off;
    if (clipped[i]) {
      m.clipped += 1;
      m.clipped_e2 += off * off;
      m.clipped_steps2 += steps * steps;
    } else {
      m.kept_e2 += off * off;
      m.kept_steps2 += steps * steps;
    }
    largest = Math.abs(off) > largest ? Math.abs(off) : largest;
    counts[q[i] - codes[0]] += 1;
  }
  const seen = counts.map((count) => (count > 0 ? 1 : 0));
  return { ...m, e2: m.kept_e2 + m.clipped_e2, max_error: largest, code_counts: counts, codes_seen: seen };
}

/**
 * Return the metrics `wanted` of moments, by id. `formulas` are the parts of the program that `write_metrics`
 * of Python packed, and `bits` are the stored bits of an element.
 */
export function metricsOf(formulas, moments, bits, wanted = Object.keys(formulas)) {
  return Object.fromEntries(wanted.map((id) => [id, formulas[id](moments, bits)]));
}
