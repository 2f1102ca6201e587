// The pictures of the toys' numbers on canvases of the page.

import { DIGITS } from "./results.js";
import { emptied, paintLine, sharpen } from "../page/canvas.js";
import { significant } from "../panels/numbers.js";
import { filled } from "../ruler/figures.js";

class View {
  constructor(canvas, writing) {
    Object.assign(this, { canvas, writing, context: canvas.getContext("2d") });
  }

  // Take the canvas' size on the page; false while it has none.
  fit() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    Object.assign(this, { width, height });
    return Boolean(width && height);
  }
}

// ---- a picture: its numbers as greys, or as colours of an error --------------------------------

const GREYS = Uint32Array.from({ length: 256 }, (_, grey) => (0xff000000 | (grey * 0x010101)) >>> 0);

// Shades from a list of red, green and blue, as pixels.
export function shadesOf(bytes) {
  return Uint32Array.from({ length: bytes.length / 3 }, (_, i) => {
    const [red, green, blue] = bytes.subarray(3 * i, 3 * i + 3);
    return (0xff000000 | (blue << 16) | (green << 8) | red) >>> 0;
  });
}

export class PictureView extends View {
  constructor(canvas, writing) {
    super(canvas, writing);
    [this.cells, this.sharp] = [document.createElement("canvas"), document.createElement("canvas")];
  }

  // Take the canvas' size on the page; false while it has none.
  fit(rows, cols) {
    const { canvas } = this;
    if (!super.fit()) return false;
    const ratio = sharpen(canvas, this.width, this.height);
    const { width: across, height: down } = canvas;
    // The picture covers its frame; what does not fit is left out on both sides.
    const scale = Math.max(across / cols, down / rows);
    const [seenCols, seenRows] = [across / scale, down / scale];
    const [left, top] = [(cols - seenCols) / 2, (rows - seenRows) / 2];
    Object.assign(this, { rows, cols, ratio, scale, left, top, seenCols, seenRows });
    return true;
  }

  // Draw values between two ends, in so many shades.
  paint(values, lo, hi, shades = GREYS) {
    const { rows, cols, cells, sharp, context, canvas } = this;
    if (cells.width !== cols || cells.height !== rows) {
      Object.assign(cells, { width: cols, height: rows });
      this.brush = cells.getContext("2d");
      this.image = this.brush.createImageData(cols, rows);
      this.pixels = new Uint32Array(this.image.data.buffer);
    }
    const [last, factor] = [shades.length - 1, (shades.length - 1) / (hi - lo)];
    for (let i = 0; i < values.length; i++) {
      const at = Math.round((values[i] - lo) * factor);
      this.pixels[i] = shades[at < 0 ? 0 : at > last ? last : at];
    }
    this.brush.putImageData(this.image, 0, 0);
    // First to whole pixels, then to the frame: every cell has the same size and a sharp edge.
    const times = Math.ceil(this.scale);
    if (sharp.width !== cols * times || sharp.height !== rows * times)
      Object.assign(sharp, { width: cols * times, height: rows * times });
    const enlarge = sharp.getContext("2d");
    enlarge.imageSmoothingEnabled = false;
    enlarge.drawImage(cells, 0, 0, sharp.width, sharp.height);
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.imageSmoothingEnabled = true;
    const seen = [this.left, this.top, this.seenCols, this.seenRows].map((each) => each * times);
    context.drawImage(sharp, ...seen, 0, 0, canvas.width, canvas.height);
  }

  // Frame a cell, so that it is found on any grey.
  mark(at, color) {
    const { context, ratio, scale, cols } = this;
    const x = ((at % cols) + 0.5 - this.left) * scale;
    const y = (Math.floor(at / cols) + 0.5 - this.top) * scale;
    const half = Math.max(9 * ratio, scale / 2 + 2 * ratio);
    for (const [line, width] of [
      ["rgba(0, 0, 0, 0.5)", 4],
      [color, 2.5],
    ]) {
      context.strokeStyle = line;
      context.lineWidth = width * ratio;
      context.strokeRect(x - half, y - half, 2 * half, 2 * half);
    }
  }

  // The cell under a place on the canvas.
  cellAt(x, y) {
    const { ratio, scale, rows, cols } = this;
    const clamped = (value, most) => Math.min(Math.max(Math.floor(value), 0), most - 1);
    const col = clamped((x * ratio) / scale + this.left, cols);
    return clamped((y * ratio) / scale + this.top, rows) * cols + col;
  }
}

// ---- a row of weights as bars on both sides of 0: the outlier runs off the picture -------------

export class RowView extends View {
  fit(rows, cols) {
    const isThere = super.fit();
    Object.assign(this, { count: rows * cols, step: (this.width - 20) / (rows * cols) });
    return isThere;
  }

  // Draw bars of `values`, and outlines of `others` behind them. `end` is the height of half the picture;
  // what is longer is cut.
  paint(values, others, end, colors) {
    const { canvas, context, width, height, step } = this;
    emptied(canvas, width, height);
    const middle = Math.round(height * 0.56);
    const perValue = (middle - 26) / end;
    const top = (value) => middle - Math.max(Math.min(value, end * 1.06), -end * 0.85) * perValue;
    const left = (i) => 10 + i * step;
    const bar = Math.max(step - 3, 2);
    context.fillStyle = colors.line;
    context.fillRect(4, middle - 0.5, width - 8, 1);
    for (let i = 0; i < values.length; i++) {
      if (others) {
        context.strokeStyle = colors.muted;
        context.globalAlpha = 0.65;
        context.lineWidth = 1;
        const [high, low] = [Math.min(top(others[i]), middle), Math.max(top(others[i]), middle)];
        context.strokeRect(left(i) + 0.5, high, bar - 1, low - high);
        context.globalAlpha = 1;
      }
      const [high, low] = [Math.min(top(values[i]), middle), Math.max(top(values[i]), middle)];
      context.fillStyle = values[i] > 0 ? colors.positive : colors.negative;
      context.fillRect(left(i), high, bar, low - high);
      if (Math.abs(values[i]) > end * 1.06) this.cut(left(i), bar, high, values[i], colors);
    }
    this.places = { left, bar, top, middle, values, others };
  }

  // A break in a bar that is longer than the picture is high, with its value above.
  cut(left, bar, high, value, colors) {
    const { context } = this;
    for (const y of [high + 12, high + 18]) {
      const slash = [
        [left - 3, y + 3],
        [left + bar + 3, y - 3],
      ];
      paintLine(context, slash, colors.surface, 2.5);
    }
    context.font = `600 12px ${colors.font}`;
    context.textAlign = left > this.width - 50 ? "right" : "center";
    context.fillStyle = colors.text;
    context.fillText(significant(value, DIGITS, this.writing), left + bar / 2, high - 6);
  }

  mark(at, color) {
    const { context, places } = this;
    const { left, bar, top, middle, values, others } = places;
    const ends = [middle, top(values[at]), others ? top(others[at]) : middle];
    const [high, low] = [Math.min(...ends) - 5, Math.max(...ends) + 5];
    context.strokeStyle = color;
    context.lineWidth = 2.5;
    context.strokeRect(left(at) - 3, high, bar + 6, low - high);
  }

  cellAt(x) {
    return Math.min(Math.max(Math.floor((x - 10) / this.step), 0), this.count - 1);
  }
}

// ---- the adder's field of a hundred sums: its answers with few bits, the wrong ones on red -----

const FIELD_SIDE = 10;
// Pixels from which a cell has room for its sum too.
const WITH_SUM = 92;

// What can be played with: an adder's answers for each number of bits. The server measures them once: until
// they are here, there are none.
export class SumsToy {
  constructor(told, sums) {
    Object.assign(this, told, { rows: FIELD_SIDE, cols: FIELD_SIDE, at: 0 });
    this.least = told.variants[0].bits;
    this.most = told.variants.at(-1).bits;
    this.take(sums);
  }

  take(sums) {
    this.runs = new Map(sums.map((run) => [run.bits, run]));
    this.original = sums.find((run) => run.bits > this.most);
    const wrong = this.runs.get(this.telling)?.sums.findIndex((sum) => sum[2] !== truthOf(sum));
    this.at = Math.max(wrong ?? 0, 0);
  }

  result(bits) {
    const variant = this.variants.find((each) => each.bits === bits);
    const run = this.runs.get(bits);
    return { variant: run ? { ...variant, size: run.size } : variant, run };
  }
}

function truthOf([left, right]) {
  return String(left + right).padStart(4, "0");
}

export class SumsView extends View {
  // Draw sums as [left, right, answer] each: the wrong ones on red, their wrong digits underlined.
  paint(sums, colors) {
    const { canvas, context, width, height } = this;
    const [across, down] = [width / FIELD_SIDE, height / FIELD_SIDE];
    emptied(canvas, width, height);
    context.textBaseline = "middle";
    sums.forEach((sum, i) => {
      const [left, top] = [(i % FIELD_SIDE) * across, Math.floor(i / FIELD_SIDE) * down];
      const [truth, answer] = [truthOf(sum), sum[2]];
      context.fillStyle = answer === truth ? colors.right : colors.wrong;
      context.fillRect(left + 1, top + 1, across - 2, down - 2);
      context.fillStyle = colors.text;
      context.font = `12px ${colors.font}`;
      const question = across < WITH_SUM ? "" : `${sum[0]}+${sum[1]}=`;
      let x = left + (across - context.measureText(question + answer).width) / 2;
      for (const [k, letter] of [...(question + answer)].entries()) {
        const place = k - question.length;
        const step = context.measureText(letter).width;
        context.fillText(letter, x, top + down / 2);
        if (place >= 0 && letter !== truth[place]) context.fillRect(x, top + down / 2 + 6, step, 2);
        x += step;
      }
    });
  }

  mark(at, color) {
    const { context, width, height } = this;
    const [across, down] = [width / FIELD_SIDE, height / FIELD_SIDE];
    context.strokeStyle = color;
    context.lineWidth = 2;
    context.strokeRect(
      (at % FIELD_SIDE) * across + 1,
      Math.floor(at / FIELD_SIDE) * down + 1,
      across - 2,
      down - 2,
    );
  }

  cellAt(x, y) {
    const place = (part, whole) =>
      Math.min(Math.max(Math.floor((FIELD_SIDE * part) / whole), 0), FIELD_SIDE - 1);
    return FIELD_SIDE * place(y, this.height) + place(x, this.width);
  }
}

// Draw the adder's field at the front door, with its words.
export function paintSums(play, run) {
  const { toy, parts, words, data, view, holding } = play;
  const few = filled(words.few, { bits: play.bits });
  if (view.made.fit() && run) {
    view.made.paint((holding ? toy.original : run).sums, data.colors);
    view.made.mark(toy.at, data.colors.dot);
  }
  parts.captions[0].textContent = holding ? words.original : filled(words.made, { few });
  parts.made.setAttribute("aria-label", filled(words.hold_keys, { name: toy.label, few }));
  parts.made.setAttribute("aria-pressed", String(holding));
  play.paintWay();
}

// Say how many sums are right, and the touched one.
export function saySums(play, run) {
  const { toy, parts, words } = play;
  if (!run) return (parts.sum.textContent = words.adding);
  const sum = run.sums[toy.at];
  const told = { ...run, left: sum[0], plus: sum[1], answer: sum[2], truth: truthOf(sum) };
  const one = filled(told.answer === told.truth ? words.right_sum : words.wrong_sum, told);
  const sentence = `${filled(words.right_sums, told)} ${one}`;
  parts.sum.innerHTML = `<span class="qv-said">${sentence}</span>`;
  if (!play.motion.runs && play.spoken !== sentence) {
    play.spoken = sentence;
    parts.heard.textContent = parts.sum.textContent;
  }
}
