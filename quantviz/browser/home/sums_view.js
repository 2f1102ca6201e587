// The adder's field of a hundred sums: what it answers with few bits, the wrong ones on red.

import { emptied } from "../page/canvas.js";
import { filled } from "../ruler/figures.js";
import { View } from "./view.js";

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
