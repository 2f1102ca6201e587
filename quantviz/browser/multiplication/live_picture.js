// X, Wᵀ and Y while a hand moves something: a canvas over plotly's heatmaps, which take several frames to be
// drawn anew, and copies of the numbers that plotly printed.

import { layOver } from "../page/canvas.js";
import { element } from "../page/elements.js";
import { lightOf, scaled } from "../panels/colours.js";
import { Cover } from "../panels/cover.js";
import { significant } from "../panels/numbers.js";
import { filled } from "../ruler/figures.js";
import { fitNumbers, partsOf } from "./parts.js";

// An error that reaches at least so many times as far as its colours leaves them: `_LEAVING` of Python.
const LEAVING = 1.1;
// The inks of plotly's printed numbers, on dark colours and on light ones.
const ON_DARK = "#ffffff";
const ON_LIGHT = "#444444";
// The luminance on which both have the same contrast.
const MIDDLE = 0.2865;

export class LivePicture extends Cover {
  constructor() {
    super();
    this.numbers = element("svg", { class: "qv-live-numbers" });
    layOver(this.numbers);
    // The copied numbers of each part.
    this.labels = {};
  }

  // Draw `shown`, for each part its values in rows (`values`, `rows`, `cols`) and the end of its colours
  // (`end`), over the chart of `picture`, whose overlay of marks stays above.
  paint({ gd, overlay }, shown, { ramp, words, writing, fixed }) {
    const frame = gd?.querySelector(".svg-container");
    if (!frame || !overlay) return;
    this.begin(gd._fullLayout);
    if (this.scale?.ramp !== ramp) this.scale = { ramp };
    if (this.numbers.gd !== gd) this.copyNumbers(gd);
    partsOf(gd).forEach((part, at) => {
      const cells = shown[part.name];
      if (!cells) return;
      const end = cells.end || 1;
      const scale = scaled(this.scale, -end, end, true);
      const picture = gd.querySelector(`${part.heatmap} image`);
      if (picture) this.drawValues(cells.values, cells, scale, part, picture);
      this.writeNumbers(part, cells, scale, writing);
      writeReach(gd, at, reachOf(cells, words, writing, fixed));
    });
    if (this.canvas.parentNode !== frame) frame.insertBefore(this.canvas, overlay);
    if (this.numbers.parentNode !== frame) frame.insertBefore(this.numbers, overlay);
  }

  remove() {
    super.remove();
    this.numbers.remove();
    this.numbers.gd = null;
  }

  copyNumbers(gd) {
    this.numbers.gd = gd;
    for (const side of ["width", "height"]) this.numbers.setAttribute(side, gd._fullLayout[side]);
    this.numbers.replaceChildren();
    for (const part of partsOf(gd)) {
      const group = element("g", {
        transform: `translate(${part.left},${part.top})`,
        "data-part": part.name,
      });
      for (const label of gd.querySelectorAll(`${part.heatmap} .heatmap-label`))
        group.append(label.cloneNode(true));
      this.numbers.append(group);
      this.labels[part.name] = group.querySelectorAll("text");
    }
  }

  writeNumbers(part, { values, noise }, scale, writing) {
    const labels = this.labels[part.name];
    if (!labels.length) return;
    const own = noise();
    labels.forEach((label, i) => {
      const text = significant(Math.abs(values[i]) <= own[i] ? 0 : values[i], 3, writing);
      if (label.textContent !== text) label.textContent = text;
      // Plotly's ink: of its two the one with more contrast to the colour below.
      setStyle(label, "fill", lightOf(scale, values[i]) < MIDDLE ? ON_DARK : ON_LIGHT);
    });
    fitNumbers(part, labels, writing);
  }
}

// Set a style that nobody else sets, where it is another one than before.
function setStyle(node, name, value) {
  const known = (node.qvStyles ??= {});
  if (known[name] !== value) node.style[name] = known[name] = value;
}

// How far a part's colours reach: `_reach` of Python.
export function reachOf({ end, largest }, words, writing, fixed) {
  const far = significant(end, 3, writing);
  if (!fixed) return `±${far}`;
  const times = end ? largest / end : 0;
  const template = times >= LEAVING ? words.fixed_left : words.fixed;
  return filled(template, { end: far, times: significant(times, 2, writing) });
}

// Behind a part's name, which plotly wrote in bold.
function writeReach(gd, at, reach) {
  const words = gd.querySelector(`.annotation[data-index="${at}"] .annotation-text`)?.lastChild;
  if (words?.nodeType === Node.TEXT_NODE && words.data !== ` ${reach}`) words.data = ` ${reach}`;
}
