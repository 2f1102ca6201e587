// In which styles the values of a panel can be printed: `printing_styles` of `printing.py` gives the same.

// Significant digits of the largest value.
const DIGITS = 3;
// Values that are written in full with so many decimals keep them, up to so many units of the last one.
const EXACT = 3;
const EXACT_UNITS = 2 ** 20;
// Of more values a sample is taken.
const SAMPLE = 4096;
// Decimals beyond which values are written by their power of ten.
const MOST_DECIMALS = 5;

// The styles to print `values` in, the one with most decimals first; they have no fewer than `like`.
export function stylesOf(values, writing, like = null) {
  const found = sampleOf(values)
    .map(Math.abs)
    .filter((each) => each > 0 && each < Infinity);
  if (!found.length) return [style(0)];
  found.sort();
  const largest = found.at(-1);
  const typical = medianOf(found);
  const powers = [1, 0].map((decimals) => style(decimals, true, true));
  const whole = exactDecimals(found, largest);
  let most = whole ?? mostDecimals(largest, typical);
  if (like) most = Math.max(most, stylesOf(like, writing)[0].decimals);
  const plainly = largest >= writing.least && largest < writing.most && most <= MOST_DECIMALS;
  if (!plainly) return [style(2, true, true), ...powers];
  const least = Math.min(most, Math.max(0, -decadeOf(typical)));
  const plain = Array.from({ length: most - least + 1 }, (_, i) => style(most - i));
  const short = plain.filter(({ decimals }) => decimals).map(({ decimals }) => style(decimals, false));
  return whole === 0 ? plain : [...plain, ...short, ...powers];
}

function style(decimals, zero = true, power = false) {
  return { decimals, zero, power };
}

// The ends and evenly chosen others of many values, without NaN.
function sampleOf(values) {
  const there = Float64Array.from(values);
  if (there.length <= SAMPLE) return there;
  const by = Math.floor(there.length / SAMPLE) + 1;
  const numbers = there.filter((each) => !Number.isNaN(each));
  const end = (of) => numbers.reduce((one, other) => of(one, other));
  const ends = numbers.length ? [end(Math.min), end(Math.max)] : [];
  return Float64Array.from([...there.filter((_, i) => i % by === 0), ...ends]);
}

// The median of numbers in their order.
export function medianOf(sorted) {
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

// A median from 0.1 to 10 has two decimals.
function mostDecimals(largest, typical) {
  const exponent = decadeOf(typical);
  return Math.max(0, DIGITS - 1 - decadeOf(largest), DIGITS - 1 - exponent - (exponent < 0 ? 1 : 0));
}

function decadeOf(value) {
  return Math.floor(Math.log10(value));
}

// The decimals that write all in full, within float32; null if that takes too many.
function exactDecimals(magnitudes, largest) {
  for (let decimals = 0; decimals <= EXACT; decimals++) {
    const factor = 10 ** decimals;
    if (largest * factor > EXACT_UNITS && decimals) return null;
    const written = (each) => Math.abs(each * factor - Math.round(each * factor)) <= 2 ** -23 * each * factor;
    if (magnitudes.every(written)) return decimals;
  }
  return null;
}
