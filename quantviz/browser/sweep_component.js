// GPTQ's sweep: a slider over the columns; above it the weights as they are at this moment, the push of the
// present column onto those at its right, and the errors so far beside those of rounding to nearest.

import { emptied, paintLine } from "./page/canvas.js";
import { lasting } from "./page/component.js";
import { sliderRules } from "./page/slider.js";
import { significant } from "./panels/numbers.js";
import { filled } from "./ruler/figures.js";

// ---- the moments of the sweep, from what the server sends once ---------------------------------

// The factor is upper triangular: row j has its entries from column j on, as 16-bit shares of its largest.
function factorRow(known, column) {
  const { columns, factor, largest } = known;
  const start = column * columns - (column * (column - 1)) / 2;
  const row = new Float64Array(columns);
  const unit = largest[column] / 32767;
  for (let k = column; k < columns; k++) row[k] = factor[start + k - column] * unit;
  return row;
}

// Move weights from one moment to another: forwards, or afresh where the other lies before. When so many columns
// are rounded they are W less the pushes of these; `known.weights` and `known.pushed` are rows × columns.
function moved(known, from, done) {
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

// The pictures from top to bottom, each with its CSS pixels.
const HEIGHTS = { errors: 76, weights: 50, push: 36, loud: 22 };
const DIGITS = 3;
// Share of a weight below which its error is that of float32.
const DUST = 1e-6;

class Sweep {
  constructor(host) {
    this.root = host.appendChild(document.createElement("div"));
    this.root.className = "qv-sweep";
    this.observer = new ResizeObserver(() => this.paint());
    this.observer.observe(this.root);
  }

  close() {
    this.observer.disconnect();
    this.root.remove();
  }

  // Take what the server sent; the place stays where it is the same sweep, and a hand keeps its slider where
  // the words and colours are the same, too.
  update(data) {
    const same = this.data?.key === data.key;
    const { words, colors } = data;
    const looks = JSON.stringify([words, colors]);
    if (same && looks === this.looks) return;
    Object.assign(this, { data, looks, now: null });
    this.done = same ? this.done : Math.round(data.columns / 3);
    const figures = Object.keys(HEIGHTS).map(
      (name) =>
        `<figure><figcaption>${words[name]}</figcaption>
          <canvas data-part="${name}" style="height:${HEIGHTS[name]}px"></canvas></figure>`,
    );
    this.root.innerHTML = `<style>${rules(colors)}</style><p class="qv-sweep-words" aria-live="polite"></p>
      <div class="qv-track"><span class="qv-fill"></span><input type="range" min="0" max="${data.columns}"
        step="1" value="${this.done}" aria-label="${words.slider}"><span class="qv-thumb"
        aria-hidden="true"></span></div>${figures.join("")}`;
    this.root.querySelector("figcaption").innerHTML += legend(words, colors);
    this.input = this.root.querySelector("input");
    this.input.addEventListener("input", () => this.go(Number(this.input.value)));
    this.paint();
  }

  go(done) {
    this.done = done;
    this.paint();
  }

  paint() {
    if (!this.root.clientWidth) return;
    const { data, done } = this;
    this.now = moved(data, this.now, done);
    this.root.querySelector(".qv-track").style.setProperty("--at", done / data.columns);
    const words = this.words();
    this.root.querySelector(".qv-sweep-words").textContent = words;
    this.input.setAttribute("aria-valuetext", words);
    this.paintErrors();
    this.paintWeights();
    this.paintPush();
    this.paintLoudness();
  }

  // The sentence on the column that is rounded next, or on the end of the sweep.
  words() {
    const { data, done } = this;
    const { words, columns } = data;
    const number = (value) => significant(value, DIGITS, data.writing);
    const percent = (value) => `${number(100 * value)}\u00a0%`;
    const errors = { gptq: percent(data.output[done]), nearest: percent(data.nearestOutput[done]) };
    if (done === columns) return filled(words.end, errors);
    const rounded = data.rounded[done];
    const error = -data.pushed[done] * data.diagonal[done];
    const before = number(data.weights[done]);
    const after = number(rounded - error);
    const isExact = before === after && Math.abs(error) <= DUST * Math.abs(rounded);
    return filled(isExact ? words.exact : words.column, {
      ...errors,
      place: done + 1,
      columns,
      channel: data.order[done],
      output: data.outputs[0],
      before,
      moved: after,
      rounded: number(rounded),
      error: number(error),
      left: columns - done - 1,
    });
  }

  // A canvas made ready: its context, and its size in CSS pixels.
  canvas(name) {
    const canvas = this.root.querySelector(`[data-part=${name}]`);
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    const context = emptied(canvas, width, height);
    return { context, width, height, step: width / this.data.columns };
  }

  // The outputs' rows, each weight in its colour; a line stands before the next column.
  paintWeights() {
    const { data, now, done } = this;
    const { rows, columns, reach, colors } = data;
    const { context, width, height, step } = this.canvas("weights");
    const tall = height / rows;
    const across = Math.max(1, Math.floor(columns / width));
    for (let i = 0; i < rows; i++)
      for (let k = 0; k < columns; k += across) {
        const share = now.values[i * columns + k] / reach;
        context.fillStyle = share > 0 ? colors.positive : colors.negative;
        context.globalAlpha = Math.min(1, Math.abs(share)) * 0.95;
        context.fillRect(k * step, i * tall, Math.max(step * across, 0.7), Math.max(tall - 0.5, 0.5));
      }
    context.globalAlpha = 1;
    context.fillStyle = colors.text;
    context.fillRect(Math.min(done * step, width - 1.5) - 0.75, 0, 1.5, height);
  }

  // Row j of the factor over its diagonal: the share of this column's error that each later column takes.
  paintPush() {
    const { data, done } = this;
    const { columns, colors } = data;
    const { context, width, height, step } = this.canvas("push");
    const middle = Math.round(height / 2);
    context.fillStyle = colors.line;
    context.fillRect(0, middle, width, 1);
    if (done === columns) return;
    const row = factorRow(data, done);
    let most = 0;
    for (let k = done + 1; k < columns; k++) most = Math.max(most, Math.abs(row[k]));
    for (let k = done + 1; k < columns; k++) {
      const tall = most ? (row[k] / most) * (middle - 3) : 0;
      context.fillStyle = row[k] > 0 ? colors.positive : colors.negative;
      context.fillRect(
        k * step,
        tall > 0 ? middle - tall : middle,
        Math.max(step - 0.3, 0.8),
        Math.abs(tall),
      );
    }
    context.fillStyle = colors.text;
    context.fillRect(done * step, 0, Math.max(step, 1.5), height);
  }

  // How loud the input of each column is: the root of H_jj.
  paintLoudness() {
    const { data, done } = this;
    const { columns, colors, loud } = data;
    const { context, height, step } = this.canvas("loud");
    const most = loud.reduce((one, other) => Math.max(one, other), 0) || 1;
    for (let k = 0; k < columns; k++) {
      context.fillStyle = k === done ? colors.text : colors.muted;
      const tall = (loud[k] / most) * height;
      context.fillRect(k * step, height - tall, Math.max(step - 0.3, k === done ? 1.5 : 0.8), tall);
    }
  }

  // The output errors on one scale and the weight errors on another; full up to this moment, faint beyond.
  paintErrors() {
    const { data, done } = this;
    const { columns, colors } = data;
    const { context, width, height } = this.canvas("errors");
    const lines = [
      [data.nearestOutput, data.output, colors.output],
      [data.nearestWeight, data.weight, colors.weight],
    ];
    for (const [nearest, own, color] of lines) {
      const top = Math.max(...nearest, ...own) || 1;
      const place = (values) => (k) => [
        (k / columns) * width,
        height - 4 - (values[k] / top) * (height - 10),
      ];
      for (const [values, dashed] of [
        [nearest, true],
        [own, false],
      ]) {
        const at = place(values);
        const every = Array.from({ length: columns + 1 }, (_, k) => at(k));
        context.setLineDash(dashed ? [5, 4] : []);
        context.globalAlpha = 0.28;
        paintLine(context, every, color, 1.5);
        context.globalAlpha = 1;
        paintLine(context, every.slice(0, done + 1), color, dashed ? 1.5 : 2.2);
      }
      context.setLineDash([]);
    }
    context.fillStyle = colors.text;
    context.fillRect(Math.min((done / columns) * width, width - 1), 0, 1, height);
  }
}

// The names of the lines, each in its colour.
function legend(words, colors) {
  const line = (color, dashed) =>
    `<i style="border-top:2px ${dashed ? "dashed" : "solid"} ${color}" aria-hidden="true"></i>`;
  return [
    `${line(colors.output, false)}${words.output}`,
    `${line(colors.weight, false)}${words.weight}`,
    `${line(colors.text, true)}${words.nearest}`,
  ].join(" ");
}

function rules(colors) {
  return `${sliderRules({ line: colors.line, handle: colors.accent, text: colors.text })}
    .qv-sweep { font: var(--qv-14) ${colors.font}; color: ${colors.text};
      font-variant-numeric: tabular-nums; }
    .qv-sweep-words { margin: 0; line-height: 1.35; min-height: 2.7em; max-width: 78ch; }
    .qv-sweep figure { margin: 0 0 3px; }
    .qv-sweep figcaption { font-size: var(--qv-12); line-height: 1.25; color: ${colors.muted}; }
    .qv-sweep canvas { display: block; width: 100%; }
    .qv-sweep figcaption i { display: inline-block; width: 1.6em; margin: 0 0.35em 0.25em 0.7em; }
  `;
}

export default lasting(Sweep);
