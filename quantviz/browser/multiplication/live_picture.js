// X, Wᵀ and Y while a hand moves something: a canvas over plotly's heatmaps, which take several frames to be
// drawn anew, and copies of the numbers that plotly printed.

import { Cover, drawnBox, layOver } from "../page/canvas.js";
import { element } from "../page/elements.js";
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
    if (this.numbers.gd !== gd) this.copyNumbers(gd);
    partsOf(gd).forEach((part, at) => {
      const cells = shown[part.name];
      if (!cells) return;
      const colours = coloursOf(cells.values, ramp, cells.end || 1);
      this.drawCells(gd, part, cells, colours);
      this.writeNumbers(part, cells, colours, writing);
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

  // Where plotly's own picture of the cells lies, so that they do not move when it comes.
  drawCells(gd, part, { rows, cols }, colours) {
    if (this.cells.width !== cols || this.cells.height !== rows)
      Object.assign(this.cells, { width: cols, height: rows });
    const image = this.cellsContext.createImageData(cols, rows);
    for (let i = 0; i < rows * cols; i++) {
      for (let channel = 0; channel < 3; channel++)
        image.data[4 * i + channel] = Math.round(colours[3 * i + channel]);
      image.data[4 * i + 3] = 255;
    }
    this.cellsContext.putImageData(image, 0, 0);
    const picture = gd.querySelector(`${part.heatmap} image`);
    if (!picture) return;
    // It would show through at the edges, which lie between two pixels.
    this.hide(picture);
    const [x, y, width, height] = drawnBox(picture);
    // A canvas draws a picture to whole pixels, and its edges lie between two: it is drawn past them, and cut
    // there. Plotly cuts it once more, at the part's own edges.
    this.context.imageSmoothingEnabled = false;
    for (const shift of [-0.5, 0.5, 0])
      this.context.drawImage(this.cells, part.left + x + shift, part.top + y + shift, width, height);
    this.cut(part.left + x, part.top + y, width, height);
    this.cut(part.left, part.top, part.width, part.height);
  }

  // Take off what was drawn around a rectangle.
  cut(left, top, width, height) {
    const { context } = this;
    context.save();
    context.globalCompositeOperation = "destination-out";
    context.fillRect(left - 2, top - 2, 2, height + 4);
    context.fillRect(left + width, top - 2, 2, height + 4);
    context.fillRect(left - 2, top - 2, width + 4, 2);
    context.fillRect(left - 2, top + height, width + 4, 2);
    context.restore();
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

  writeNumbers(part, { values, noise }, colours, writing) {
    const labels = this.labels[part.name];
    if (!labels.length) return;
    const own = noise();
    labels.forEach((label, i) => {
      const text = significant(Math.abs(values[i]) <= own[i] ? 0 : values[i], 3, writing);
      if (label.textContent !== text) label.textContent = text;
      setStyle(label, "fill", inkOver(colours[3 * i], colours[3 * i + 1], colours[3 * i + 2]));
    });
    fitNumbers(part, labels, writing);
  }
}

// Red, green and blue of each value as plotly finds them on the scale from -end to end, between the colours
// of the ramp, which lie at equal distances.
function coloursOf(values, ramp, end) {
  const channels = ramp.map((colour) => [1, 3, 5].map((from) => parseInt(colour.slice(from, from + 2), 16)));
  const last = ramp.length - 1;
  const colours = new Float64Array(3 * values.length);
  for (let i = 0; i < values.length; i++) {
    const place = Math.min(Math.max(((values[i] + end) / (2 * end)) * last, 0), last);
    const low = Math.min(Math.floor(place), last - 1);
    const share = place - low;
    for (let channel = 0; channel < 3; channel++)
      colours[3 * i + channel] = channels[low][channel] * (1 - share) + channels[low + 1][channel] * share;
  }
  return colours;
}

// Set a style that nobody else sets, where it is another one than before.
function setStyle(node, name, value) {
  const known = (node.qvStyles ??= {});
  if (known[name] !== value) node.style[name] = known[name] = value;
}

// The ink that plotly chooses: of its two the one with more contrast to the colour below.
function inkOver(...colour) {
  const linear = colour.map((part) =>
    part <= 0.04045 * 255 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4,
  );
  return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] < MIDDLE ? ON_DARK : ON_LIGHT;
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
