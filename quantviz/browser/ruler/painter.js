// The ruler on its canvas. What stands where comes from `places.js`.

import { paintBell } from "./bell.js";
import { nearestLevel, paintComb } from "./comb.js";
import { heightAt, paintCurve, paintCurveMarks } from "./curve.js";
import { paintDisc, paintLine } from "../page/canvas.js";
import { kept } from "../page/kept.js";
import { significant } from "../panels/numbers.js";
import { filled } from "./figures.js";
import { clippedBeyond } from "./limits.js";
import { MOST_DOTS, dotPlaces, dotSize, draws, drawsCurve, pileUp, teethOf } from "./places.js";
import { paintMark } from "./mark.js";
import { paintRows } from "./rows.js";
import { paintSliders } from "./sliders.js";
import { paintVotes } from "./votes.js";
import { WEIGHTS } from "./weights.js";

// The size of every label, in pixels.
const LABEL = 12;
// Pixels between two labels side by side.
const GAP = 3;
// Behind a curve that stands on the comb the bars have this share of its height.
const BARS_BEHIND = 0.35;
// Pixels around the text on its plate.
const PLATE = 2;

// Where things are drawn on the ruler, before any is.
export const noMarks = (bands) => ({ teeth: [], dot: null, ends: [], knobs: bands.top + 9, taken: [] });

// Paints one picture; `marks` afterwards says where the teeth with labels and the selected dot are.
export class RulerPainter {
  constructor(context, { colors, writing }) {
    this.context = context;
    this.colors = colors;
    this.writing = writing;
    this.widths = new Map();
    this.places = new Float32Array(0);
  }

  paint(picture, axis, bands, words, held) {
    Object.assign(this, { picture, axis, bands, words, held });
    const { context } = this;
    context.clearRect(0, 0, axis.right + axis.left, bands.height);
    context.textBaseline = "alphabetic";
    this.teeth = draws(picture, "codes") ? teethOf(picture.levels, axis) : [];
    this.marks = noMarks(bands);
    this.waiting = [];
    // Whether the curve stands in the place of the dots.
    this.onCurve = Boolean(bands.standing) && drawsCurve(picture);
    if (draws(picture, "dots")) this.paintAxis();
    if (bands.sliders) paintSliders(this);
    this.writeLabels();
    paintMark(this);
    paintVotes(this);
    return this.marks;
  }

  paintAxis() {
    const { picture } = this;
    this.paintHistogram();
    paintBell(this);
    const hasCurve = drawsCurve(picture);
    if (hasCurve) paintCurve(this);
    if (picture.range) this.paintRange();
    if (hasCurve) paintCurveMarks(this);
    paintComb(this);
    paintRows(this);
    if (picture.values.length) this.paintDots();
    this.paintSelected();
  }

  // Reading the canvas' font back takes longer than drawing with it.
  fontOf(weight = 400) {
    const font = `${weight} ${LABEL}px ${this.colors.font}`;
    this.context.font = font;
    this.known = kept(this.widths, font, () => new Map());
    if (this.known.size > 4000) this.known.clear();
  }

  widthOf(text) {
    return kept(this.known, text, () => this.context.measureText(text).width);
  }

  written(value, digits = 4) {
    return significant(value, digits, this.writing);
  }

  // Let `write` have a label's place once all else is drawn, after the labels of more weight.
  ask(weight, write) {
    this.waiting.push({ weight, write });
  }

  writeLabels() {
    const { waiting } = this;
    this.waiting = [];
    for (const { write } of waiting.toSorted((a, b) => b.weight - a.weight)) write();
  }

  // Text whose place no other label takes.
  write(text, x, y, color, align = "center") {
    const { context } = this;
    context.textAlign = align;
    context.fillStyle = color;
    context.fillText(text, x, y);
    this.marks.taken.push(this.boxOf(text, x, y, align));
  }

  // Text on a plate, readable on whatever lies below it.
  label(text, x, y, color, align = "center") {
    const { context } = this;
    const half = align === "center" ? this.widthOf(text) / 2 : 0;
    const inside = Math.min(Math.max(x, half + 1), this.axis.right + this.axis.left - half - 1);
    const { left, right, top, bottom } = this.boxOf(text, inside, y, align);
    context.fillStyle = this.colors.surface;
    context.fillRect(left - PLATE, top, right - left + 2 * PLATE, bottom - top);
    this.write(text, inside, y, color, align);
  }

  boxOf(text, x, y, align) {
    const width = this.widthOf(text);
    const left = x - width * { left: 0, center: 0.5, right: 1 }[align];
    return { left, right: left + width, top: y - 10, bottom: y + 3 };
  }

  // Write a label unless it would lie on what was written before, or beyond the ruler; `least` is where its
  // top may be.
  labelWhereFree(text, x, y, color, align = "left", least = 0) {
    const box = this.boxOf(text, x, y, align);
    const { axis, bands } = this;
    if (box.left < 0 || box.right > axis.right + axis.left) return false;
    if (box.top < least || box.bottom > bands.height) return false;
    const beside = (each) => box.left - GAP >= each.right || each.left >= box.right + GAP;
    const apart = (each) => beside(each) || box.top >= each.bottom || each.top >= box.bottom;
    if (!this.marks.taken.every(apart)) return false;
    this.label(text, x, y, color, align);
    return true;
  }

  paintHistogram() {
    const { picture, context, axis, bands, colors } = this;
    if (!picture.histogram) return;
    const { edges, counts } = picture.histogram;
    const alone = this.hasNoDots();
    if (!alone && !draws(picture, "all")) return;
    // A few dots have low bars: how many there are is seen by the dots.
    let most = alone ? 1 : 4;
    for (const count of counts) most = Math.max(most, count);
    const height = (bands.tips - bands.top - 6) * (this.onCurve ? BARS_BEHIND : 1);
    const { lo, hi } = clippedBeyond(picture);
    const drawBars = (outside, color, alpha) => {
      context.fillStyle = color;
      context.globalAlpha = alpha;
      for (let k = 0; k < counts.length; k++) {
        const middle = (edges[k] + edges[k + 1]) / 2;
        if (!counts[k] || (middle < lo || middle > hi) !== outside) continue;
        const [left, right] = [axis.inside(edges[k]), axis.inside(edges[k + 1])];
        const bar = Math.max((counts[k] / most) * height, 1.5);
        context.fillRect(left, bands.tips - bar, Math.max(right - left - (right - left > 4 ? 1 : 0), 1), bar);
      }
    };
    const apart = alone && !this.onCurve;
    drawBars(false, apart ? colors.dot : colors.muted, apart ? 0.5 : 0.18);
    // Where no dots pile up beyond the range its bars say what is clipped.
    drawBars(
      true,
      alone || this.onCurve ? colors.clipping : colors.muted,
      alone || this.onCurve ? 0.75 : 0.18,
    );
    context.globalAlpha = 1;
  }

  // Whether the histogram alone shows the values, with the selected one at most.
  hasNoDots() {
    const { values, selected } = this.picture;
    return values.length > MOST_DOTS || values.length === (selected >= 0 ? 1 : 0);
  }

  paintDots() {
    const { picture, axis, bands, colors } = this;
    const places = (this.places = dotPlaces(picture, axis, bands));
    if (picture.selected >= 0)
      this.marks.dot = { x: places[2 * picture.selected], y: places[2 * picture.selected + 1] };
    const size = dotSize(picture.values.length, bands.narrow);
    if (this.hasNoDots()) return;
    const piles = pileUp(picture, axis, bands, places, size.radius);
    if (!this.onCurve) {
      this.paintErrors(places, size);
      this.paintRounds(places, size, 0, colors.dot);
      this.paintRounds(places, { ...size, dot: 1 }, 1, colors.clipping);
    }
    for (const pile of piles)
      if (pile.members.length > 2) this.ask(WEIGHTS.outside, () => this.paintPileWords(pile));
  }

  // How many lie on a pile: beside it, or above it where the ruler ends.
  paintPileWords({ count, foot, edge, top, out }) {
    const { axis, bands, colors } = this;
    this.fontOf(600);
    const words = filled(this.words.outside, { count });
    const width = this.widthOf(words) + 6;
    // Above the height of the selected value's label.
    const y = Math.max(Math.min(top + 4, bands.tips - 36), bands.top + 12);
    const places = [];
    if (out > 0 ? edge + width < axis.right + axis.left : edge - width > 0)
      places.push(...[0, -15, 15, -30].map((by) => [edge + 6 * out, y + by, out > 0 ? "left" : "right"]));
    // There the knob of the range's end may be.
    const above = this.picture.handles.range ? bands.top + 30 : Math.min(y, top - 4);
    const half = width / 2;
    const inside = Math.min(Math.max(foot, half), axis.right + axis.left - half);
    places.push([inside, above, "center"], [inside, above + 15, "center"], [inside, above + 30, "center"]);
    this.labelInOneOf(words, places, colors.clippingText);
  }

  // Write a label at the first of several places, each `[x, y, align]`, that is free; returns whether any is.
  labelInOneOf(text, places, color, least = 0) {
    return places.some(([x, y, align]) => this.labelWhereFree(text, x, y, color, align, least));
  }

  // A line from each dot to its tooth, all of one colour as one path.
  paintErrors(places, size) {
    const { picture, context, axis, bands } = this;
    const { values, landed, clipped, selected } = picture;
    if (!draws(picture, "codes")) return;
    context.lineWidth = size.width;
    context.globalAlpha = size.line;
    for (const sign of [-1, 1]) {
      context.strokeStyle = this.errorColor(sign);
      context.beginPath();
      for (let i = 0; i < values.length; i++) {
        const error = landed[i] - values[i];
        if (clipped[i] || i === selected || error * sign <= 0) continue;
        context.moveTo(places[2 * i], places[2 * i + 1]);
        context.lineTo(axis.inside(landed[i]), bands.tips);
      }
      context.stroke();
    }
    context.globalAlpha = 1;
  }

  // The colour of an error by its sign.
  errorColor(error) {
    const { picture, colors } = this;
    if (!draws(picture, "all")) return colors.muted;
    return error > 0 ? colors.over : colors.under;
  }

  paintRounds(places, { radius, dot }, piled, color) {
    const { picture, context } = this;
    const { clipped, values, selected } = picture;
    // Round ends of short lines are drawn faster than circles. Of a single line without any length Chromium
    // draws nothing.
    context.strokeStyle = color;
    context.lineWidth = 2 * radius;
    context.lineCap = "round";
    context.globalAlpha = dot;
    context.beginPath();
    for (let i = 0; i < values.length; i++) {
      if ((clipped[i] ? 1 : 0) !== piled || i === selected || Number.isNaN(values[i])) continue;
      const [x, y] = [places[2 * i], places[2 * i + 1]];
      context.moveTo(x, y);
      context.lineTo(x + 0.01, y);
    }
    context.stroke();
    context.lineCap = "butt";
    context.globalAlpha = 1;
  }

  // The selected value: large, in its error's colour, with a line to its tooth and both numbers.
  paintSelected() {
    const { picture, context, axis, bands, colors, marks } = this;
    const { selected, values, landed, clipped, levels, codes } = picture;
    if (selected < 0 || !marks.dot || Number.isNaN(values[selected])) return;
    const { x, y } = marks.dot;
    const error = landed[selected] - values[selected];
    const color = this.selectedColor(error, clipped[selected]);
    const end = axis.inside(landed[selected]);
    const way = [
      [x, y],
      [end, bands.tips],
    ];
    if (draws(picture, "codes")) paintLine(context, way, color, 2.5);
    paintDisc(context, x, y, 5.5, color, colors.surface);
    // On the way to another comb a dot has no code yet.
    if (picture.gliding) return;
    const code = levels?.length
      ? codes[nearestLevel(levels, landed[selected])]
      : this.written(landed[selected], 6);
    let words = this.written(values[selected], levels?.length ? 4 : 6);
    if (draws(picture, "codes")) words += ` → ${code}`;
    if (picture.single)
      words += filled(this.words.error, { value: `${error > 0 ? "+" : ""}${this.written(error)}` });
    this.ask(WEIGHTS.selected, () => this.writeSelected(words, end, color));
  }

  // Beside the selected dot, on the side that its line does not go to; where that is taken higher or lower.
  writeSelected(words, end, color) {
    const { picture, axis, bands, marks } = this;
    const { x, y } = marks.dot;
    this.fontOf(600);
    const width = this.widthOf(words);
    const leftwards = end > x || (end === x && x > (axis.left + axis.right) / 2);
    // Beside the frame of the focus too, where a hand holds the dot.
    const beside = picture.single ? bands.reach / 2 + 3 : 11;
    const fitsLeft = x - beside - 1 - width > 2;
    const fitsRight = x + beside + 1 + width < axis.right + axis.left - 2;
    const toLeft = leftwards ? fitsLeft : !fitsRight;
    const left = [x - beside, "right"];
    const right = [x + beside, "left"];
    const sides = toLeft ? [left, right] : [right, left];
    const places = [-3, -18, 8, -33].flatMap((by) => sides.map(([at, align]) => [at, y + by, align]));
    this.labelInOneOf(words, places, color);
  }

  selectedColor(error, isClipped) {
    const { picture, colors } = this;
    if (isClipped) return colors.clippingText;
    return error && draws(picture, "all") ? this.errorColor(error) : colors.text;
  }

  paintRange() {
    const { picture, axis, bands } = this;
    if (this.onCurve) this.marks.knobs = this.ridingHeight();
    for (const end of ["lo", "hi"]) {
      const x = axis.at(picture.range[end]);
      const shown = axis.inside(picture.range[end]);
      // What can be moved is drawn at the axis' end where it lies beyond it.
      if (Math.abs(x - shown) > 1 && !picture.handles.range) continue;
      this.marks.ends.push(shown);
      this.paintBracket(shown, end === "lo" ? 1 : -1, bands);
    }
  }

  // The height at which the knobs of both ends ride on a curve that stands on the comb: that of the error
  // which the range has, or where it is not known the curve's above the end that the curve is against.
  ridingHeight() {
    const { picture, axis, bands, marks } = this;
    const { mse, lower } = picture.curve;
    const end = axis.inside(picture.range[lower ? "lo" : "hi"]);
    const height = mse === undefined ? heightAt(marks.curve, end) : marks.curve.heightOf(mse);
    return Math.min(Math.max(height ?? 0, bands.top + 10), bands.tips - 10);
  }

  // One end of the range: a bracket that opens inwards, with a knob where it can be moved.
  paintBracket(x, inwards, bands) {
    const { context, colors, picture } = this;
    const top = bands.top + 1;
    const foot = picture.curve ? bands.base : bands.line;
    const inner = x + 6 * inwards;
    const upper = picture.handles.range ? [] : [[inner, top]];
    const lower = picture.curve && !this.onCurve ? [] : [[inner, foot]];
    paintLine(context, [...upper, [x, top], [x, foot], ...lower], colors.handle, 2);
    if (picture.handles.range) this.knob(x, this.marks.knobs);
  }

  // A round knob with an arrow to both sides.
  knob(x, y) {
    const { context, colors } = this;
    paintDisc(context, x, y, 8, colors.handle);
    this.marks.taken.push({ left: x - 8, right: x + 8, top: y - 8, bottom: y + 8 });
    context.fillStyle = colors.surface;
    context.beginPath();
    for (const side of [-1, 1]) {
      context.moveTo(x + side * 1.5, y - 3);
      context.lineTo(x + side * 5, y);
      context.lineTo(x + side * 1.5, y + 3);
    }
    context.fill();
  }
}
