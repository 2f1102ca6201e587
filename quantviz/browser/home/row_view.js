// A row of weights as bars on both sides of 0. The outlier runs off the picture, and says how far.

import { significant } from "../panels/numbers.js";
import { emptied, paintLine } from "../page/canvas.js";
import { DIGITS } from "./results.js";
import { View } from "./view.js";

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
