// A layer's codes as an inference engine computes them, bit for bit: products of codes are summed here, and
// the lines from the sums to the codes are those that Python wrote.

const PAIR_MIN = -(2 ** 15);
const PAIR_MAX = 2 ** 15 - 1;

/**
 * Return the outputs' codes, tokens × outputs, with the sums they are made of. `x` and `w` are codes, tokens
 * × inputs and outputs × inputs. `numbers` are those that the lines read by name: one, or one an output.
 */
export function integerLayer({ parts, facts }, { x, w, shape, numbers }) {
  const [tokens, , outputs] = shape;
  const acc = (facts.pairs === "saturated" ? sumsOfPairs : sumsOfProducts)(x, w, shape);
  const params = { sum_w: sumsOfLines(w, outputs) };
  for (const [name, value] of Object.entries(numbers)) {
    params[name] = Float64Array.from({ length: outputs }, (_, o) => (value.length ? value[o] : value));
  }
  const sums = { params, acc, sum_x: sumsOfLines(x, tokens) };
  const q = new Int32Array(tokens * outputs);
  for (let o = 0; o < outputs; o++) {
    const column = { acc: new Int32Array(tokens), sum_x: sums.sum_x, q: new Int32Array(tokens) };
    for (let t = 0; t < tokens; t++) column.acc[t] = acc[t * outputs + o];
    parts.cells(params, o, column);
    for (let t = 0; t < tokens; t++) q[t * outputs + o] = column.q[t];
  }
  return { q, ...sums };
}

/**
 * Return the steps to the code of one cell, as `IntegerExplanation` of Python has them: each with the values
 * that it reads by name, and its result.
 */
export function integerSteps({ parts, facts }, { params, acc, sum_x }, token, output) {
  const outputs = params.sum_w.length;
  const sums = { acc: acc.subarray(token * outputs + output), sum_x: sum_x.subarray(token) };
  const made = parts.steps(params, output, sums, 0);
  const known = Object.fromEntries(Object.keys(params).map((name) => [name, params[name][output]]));
  // The sums are values of steps, known once these ran.
  delete known.sum_w;
  const steps = [];
  facts.steps.forEach(({ key, name, line, silent, read, dtype }, at) => {
    const value = made[at];
    if (!silent || known[name] !== value) {
      const numbers = read.filter((each) => each in known).map((each) => [each, known[each]]);
      steps.push({ key, name, line, dtype, read: Object.fromEntries(numbers), value });
    }
    known[name] = value;
  });
  return neededSteps(steps);
}

/** Return the steps that the code depends on. */
function neededSteps(steps) {
  const wanted = new Set(["q"]);
  const kept = [];
  for (const step of steps.toReversed()) {
    if (!wanted.delete(step.name)) continue;
    Object.keys(step.read).forEach((name) => wanted.add(name));
    kept.push(step);
  }
  return kept.toReversed();
}

/** Return the sums of products, exact, as int32. */
function sumsOfProducts(x, w, [tokens, inputs, outputs]) {
  const sums = new Int32Array(tokens * outputs);
  for (let t = 0; t < tokens; t++)
    for (let o = 0; o < outputs; o++) {
      let sum = 0;
      for (let j = 0; j < inputs; j++) sum += x[t * inputs + j] * w[o * inputs + j];
      sums[t * outputs + o] = sum;
    }
  return sums;
}

/** Return the sums where each two neighbouring products are added in 16 bits that saturate. */
function sumsOfPairs(x, w, [tokens, inputs, outputs]) {
  const sums = new Int32Array(tokens * outputs);
  for (let t = 0; t < tokens; t++)
    for (let o = 0; o < outputs; o++) {
      const [row, col] = [t * inputs, o * inputs];
      let sum = 0;
      for (let j = 0; j < inputs; j += 2) {
        const second = j + 1 < inputs ? x[row + j + 1] * w[col + j + 1] : 0;
        sum += Math.min(Math.max(x[row + j] * w[col + j] + second, PAIR_MIN), PAIR_MAX);
      }
      sums[t * outputs + o] = sum;
    }
  return sums;
}

/** Return the sum of the codes of each line. */
function sumsOfLines(codes, lines) {
  const sums = new Int32Array(lines);
  const width = codes.length / lines;
  for (let at = 0; at < codes.length; at++) sums[Math.floor(at / width)] += codes[at];
  return sums;
}
