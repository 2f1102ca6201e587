// The error against the range: each point is a real quantization with that range.

const POINTS = 65;

// Mean squared error of rounding and of clipping with the range cut to shares of the values' ends.
// `quantized` gives a result for a range; points that it refuses are left out.
export function errorCurve(quantized, lo, hi, symmetric) {
  const [at, rounding, clipping] = [[], [], []];
  for (let i = 1; i <= POINTS; i++) {
    const share = (1.12 * i) / POINTS;
    const upper = Math.fround(symmetric ? Math.max(-lo, hi) * share : hi * share);
    const lower = Math.fround(symmetric ? -upper : lo * share);
    if (!(lower < upper)) continue;
    const result = quantized({ id: "manual_range", lo: lower, hi: upper });
    if (result.refused) continue;
    const parts = errorParts(result);
    at.push(upper);
    rounding.push(parts.rounding);
    clipping.push(parts.clipping);
  }
  return {
    at: Float64Array.from(at),
    rounding: Float64Array.from(rounding),
    clipping: Float64Array.from(clipping),
  };
}

// The mean squared error in two parts: of cells within the range, and of clipped ones.
function errorParts({ x, error, clipped }) {
  let [rounding, clipping, count] = [0, 0, 0];
  for (let i = 0; i < error.length; i++) {
    if (!Number.isFinite(x[i])) continue;
    count++;
    const squared = error[i] * error[i];
    if (clipped[i]) clipping += squared;
    else rounding += squared;
  }
  return { rounding: rounding / (count || 1), clipping: clipping / (count || 1) };
}
