// The tensors of the front door, quantized by the browser. Each result is made once.

import { makeLayout } from "../arithmetic/blocks.js";
import { levelsOf, makeArithmetic, paramsOf, quantizeTensor } from "../arithmetic/quantizing.js";
import { kept } from "../page/kept.js";
import { significant } from "../panels/numbers.js";

// Digits of a number, at most.
export const DIGITS = 4;
// Cells a side that the Lab opens with: so many are printed, on a phone too.
const PRINTED = 6;

// What can be played with: one tensor under one scheme for each number of bits.
export class Toy {
  constructor(told, programs, values, writing) {
    Object.assign(this, told);
    [this.rows, this.cols] = told.shape;
    this.x = Float32Array.from(values);
    this.programs = programs;
    this.writing = writing;
    this.layout = oneBlock(told.shape);
    this.made = new Map();
    this.at = this.cell[0] * this.cols + this.cell[1];
  }

  get least() {
    return this.variants[0].bits;
  }

  get most() {
    return this.variants.at(-1).bits;
  }

  // The result with so many bits, with its comb of codes, how many became 0, and the largest |error|.
  result(bits) {
    return kept(this.made, bits, () => {
      const variant = this.variants.find((each) => each.bits === bits);
      const arithmetic = makeArithmetic(this.programs[variant.program]);
      const result = quantizeTensor(arithmetic, this.x, this.layout);
      const params = paramsOf(result, 0);
      const { values, codes } = levelsOf(arithmetic, params);
      let [zeros, largest] = [0, 0];
      for (let i = 0; i < this.x.length; i++) {
        zeros += result.x_hat[i] === 0 && this.x[i] !== 0 ? 1 : 0;
        largest = Math.max(largest, Math.abs(result.error[i]));
      }
      return {
        ...result,
        variant,
        zeros,
        largest,
        scale: params.scale,
        levels: values,
        codes: Array.from(codes, (code) => significant(code, DIGITS, this.writing)),
      };
    });
  }

  // The touched number as a link tells its cell, and a view of the cells around it.
  place() {
    const [row, col] = [Math.floor(this.at / this.cols), this.at % this.cols];
    const [top, rows] = windowAround(row, this.rows);
    const [left, cols] = windowAround(col, this.cols);
    return { cell: `${row}.${col}`, view: `0.1_0.0_${top}.${left}.${rows}.${cols}` };
  }

  // The journey of the touched number: what it is divided by, where it lands, what comes back.
  journey(bits) {
    const { at } = this;
    const { scale, q, x_hat: values, error, levels, codes } = this.result(bits);
    const [x, x_hat] = [this.x[at], values[at]];
    return { x, scale, ratio: x / scale, code: q[at], x_hat, error: error[at], levels, codes };
  }
}

// Where a window of cells around a place begins, and how many it has.
function windowAround(place, length) {
  const count = Math.min(PRINTED, length);
  return [Math.floor(Math.min(Math.max(place - count / 2, 0), length - count)), count];
}

// The layout of a tensor whose numbers all share one scale.
function oneBlock(shape) {
  return makeLayout({ shape, view: shape, block: shape, grid: shape.map(() => 1), tail: "refuse" });
}
