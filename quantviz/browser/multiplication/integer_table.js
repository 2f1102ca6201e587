// The selected output as an inference engine computes it in integers, step by step: the table of the tab
// Integer and the sentence above it, as the server writes them.

import { integerLayer, integerSteps } from "../arithmetic/integers.js";
import { makeQuantizer, makeArithmetic, quantizeTensor } from "../arithmetic/quantizing.js";
import { ROUNDING } from "../arithmetic/rounding.js";
import { plainNumber, significant } from "../panels/numbers.js";
import { filled } from "../ruler/figures.js";

// Products that are written out; of more, those of largest magnitude.
const MOST_WRITTEN = 4;
// Digits of a real number.
const REAL_DIGITS = 7;
// Steps that rounding moves an output by at most, `_ROUNDING` of Python.
const ROUNDED = 0.501;
const INT32 = [-(2 ** 31), 2 ** 31 - 1];
const REAL = ["s_x", "s_w", "s_y"];

/** Return what the server knows of the layer in integers, with its arithmetic ready for use. */
export function makeIntegers(known, programs) {
  return {
    ...known,
    arithmetic: makeArithmetic(programs[known.program]),
    quantizer: makeQuantizer(programs[known.of_outputs], known.layout),
  };
}

/**
 * Return the steps of the selected output with the codes and the numbers that they read; null where the
 * outputs have no scale.
 */
export function integerCell(made, { ofInputs, ofWeight, y }, { shape, held, bias, cell }) {
  const [token, output] = cell;
  const inputs = shape[1];
  const found = outputParams(made, y, held, shape[2]);
  if (!found) return null;
  const line = ({ q }, at) => Int32Array.from(q.subarray(at * inputs, (at + 1) * inputs));
  const x = line(ofInputs, token).map((code) => code + made.moved);
  const w = line(ofWeight, output);
  const own = ofWeight.blocks.scale.length > 1 ? output : 0;
  const [low, high] = made.ends;
  const numbers = {
    n: inputs,
    low,
    high,
    z_x: ofInputs.blocks.zero_point[0] + made.moved,
    z_w: ofWeight.blocks.zero_point[own],
    z_y: found.zero_point[0],
    s_x: Math.fround(ofInputs.blocks.scale[0]),
    s_w: Math.fround(ofWeight.blocks.scale[own]),
    s_y: Math.fround(found.scale[0]),
  };
  const { s_x, s_w, s_y } = numbers;
  const multiplier = Math.fround((s_x * s_w) / s_y);
  if (!(multiplier > 0 && multiplier < Infinity)) return null;
  if (made.bias) {
    const codes = Math.min(Math.max(ROUNDING.rint(bias[output] / (s_x * s_w)), INT32[0]), INT32[1]);
    numbers.bias = made.bias === "int32" ? codes : Math.fround(bias[output]);
  }
  const result = integerLayer(made.arithmetic, { x, w, shape: [1, inputs, 1], numbers });
  return { x, w, numbers, q: result.q[0], steps: integerSteps(made.arithmetic, result, 0, 0) };
}

// Scale and zero point of the outputs, chosen on those of the tokens that are not held back.
function outputParams({ quantizer, activation }, y, held, outputs) {
  const active = (value) => activated(value, activation);
  const used = y.filter((_, at) => !held[Math.floor(at / outputs)]);
  const found = quantizeTensor(quantizer.arithmetic, Float32Array.from(used, active), quantizer.layout);
  return found.refused ? null : found.params;
}

// An output after an activation.
function activated(value, activation) {
  if (activation === "none") return value;
  return Math.min(Math.max(value, 0), activation === "relu6" ? 6 : Infinity);
}

/**
 * Write the steps of an output into the table, and the sentence on it; what the browser does not know waits
 * for the server. `yHat` is the output before it is rounded.
 */
export function writeIntegers(found, known, yHat, writing) {
  const table = document.querySelector(".qv-integers");
  const body = table?.querySelector("tbody");
  if (!body) return;
  const sentence = document.querySelector(".st-key-layers_integer_answer");
  const words = sentence?.querySelector("p")?.firstChild;
  const answer = found && answerOf(found, known, yHat, writing);
  for (const [place, knows] of [
    [table, found],
    [sentence, answer],
  ]) {
    if (knows) delete place.dataset.qvWaits;
    else if (place) place.dataset.qvWaits = "";
  }
  if (answer && words && words.data !== answer) words.data = answer;
  if (found) body.replaceChildren(...integerRows(found, known, writing).map(tableRow));
}

// The sentence on the output's code; none where pairs of products may saturate, which are not known of all
// outputs.
function answerOf({ q, numbers }, { arithmetic, activation, answers }, yHat, writing) {
  if (arithmetic.facts.pairs === "saturated") return "";
  const { s_y, z_y, low, high } = numbers;
  const y = Math.fround(s_y * (q - z_y));
  const wanted = activated(yHat, activation);
  const clamped = Math.abs(y - wanted) > ROUNDED * s_y && (q === low || q === high);
  return filled(clamped ? answers.clamped : answers.rounded, {
    q: whole(q, writing),
    y: significant(y, 4, writing),
    wanted: significant(wanted, 4, writing),
    moved: plainNumber(y - wanted, 2, writing, "+"),
    half: significant(s_y / 2, 3, writing),
  });
}

// The lines of the table: words, code, numbers, result and its type.
function integerRows({ x, w, numbers, q, steps }, { symbols, words, products, value, bias }, writing) {
  const real = new Set(bias === "float32" ? [...REAL, "bias"] : REAL);
  const text = (number, isReal) =>
    isReal ? plainNumber(number, REAL_DIGITS, writing) : whole(number, writing);
  const reads = (read) =>
    Object.entries(read)
      .map(([name, number]) => `${symbols[name] ?? name} = ${text(number, real.has(name))}`)
      .join(", ");
  const rows = steps.map(({ key, name, line, dtype, read, value: made }) => {
    const of = line.startsWith("acc = int32(dot") ? productsText(x, w, products, writing) : reads(read);
    if (dtype.startsWith("int")) real.delete(name);
    else real.add(name);
    return { words: words[key], line, numbers: of, gives: text(made, real.has(name)), dtype };
  });
  const { s_y, z_y } = numbers;
  const last = { line: "y_hat = s_y * (q - z_y)", dtype: "float32" };
  const gives = text(Math.fround(s_y * (q - z_y)), true);
  return [...rows, { ...last, words: value, numbers: reads({ q, s_y, z_y }), gives }];
}

// The products of the codes: all of a few, or the largest of many.
function productsText(x, w, template, writing) {
  const order = [...x.keys()];
  const few = order.length <= MOST_WRITTEN;
  if (!few) order.sort((a, b) => Math.abs(x[b] * w[b]) - Math.abs(x[a] * w[a]) || a - b);
  const factor = (code) => (code < 0 ? `(${whole(code, writing)})` : whole(code, writing));
  const largest = order
    .slice(0, MOST_WRITTEN)
    .map((at) => `${factor(x[at])}·${factor(w[at])}`)
    .join(" + ");
  return few ? largest : filled(template, { count: whole(order.length, writing), largest });
}

// A whole number in full.
function whole(value, writing) {
  return (value < 0 ? writing.minus : "") + BigInt(Math.abs(value)).toLocaleString("en-US");
}

function tableRow({ words, line, numbers, gives, dtype }) {
  const named = (tag, ...content) => {
    const node = document.createElement(tag);
    node.append(...content);
    return node;
  };
  return named(
    "tr",
    named("td", words, named("br"), named("code", line)),
    named("td", numbers),
    named("td", named("b", gives), " ", named("small", dtype)),
  );
}
