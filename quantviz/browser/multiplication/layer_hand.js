// What a hand moves over and in the picture of a layer, and all that follows it in the same frame: X, the
// output error, and of a small layer Wᵀ, Y, the other numbers and the selected output. The server hears of it
// when the hand lets go.

import { SHARED } from "../page/component.js";
import { NumberDrag, WAY } from "../page/number_drag.js";
import { metricsOf, momentsOf } from "../arithmetic/moments.js";
import {
  changesOf,
  channelOf,
  errorsOf,
  heldError,
  largestOf,
  makeSide,
  multiplied,
  noiseOf,
  quantizedSide,
  withChannel,
} from "../arithmetic/multiplying.js";
import { makeParts, unpacked } from "../arithmetic/quantizing.js";
import { reasonOf } from "../hand/status.js";
import { filled } from "../ruler/figures.js";
import { integerCell, makeIntegers, writeIntegers } from "./integer_table.js";
import { Knobs } from "./knobs.js";
import { LivePicture } from "./live_picture.js";
import { writeHeldError, writeLayerNumbers } from "./numbers_line.js";
import { AXES, partAt, pooled } from "./parts.js";
import { Skyline } from "./skyline.js";

// The knob that each part's marked cell is.
const KNOBS = { x: "channel", w: "weight" };
// Milliseconds to wait for what the server makes of a move.
const PATIENCE = 8000;
// What is old news while a hand moves something.
const OLD = `.st-key-layers_sentence, .qv-products, .st-key-layers_steps,
  [class*="st-key-layers_tab_"]:not(.st-key-layers_tab_cell, .st-key-layers_tab_choice)`;
// The same where the output error alone follows.
const OLD_BY_ERROR = `.st-key-layers_stage, .qv-parts, .qv-share, .qv-others, .qv-large small,
  .st-key-layers_fix`;
// And where the steps in integers follow the hand.
const OLD_BY_STEPS = `.st-key-layers_sentence, .st-key-layers_steps,
  .st-key-layers_tab_integer [data-testid="stCaptionContainer"]`;

export class LayerHand {
  constructor(parent) {
    this.live = new LivePicture();
    // When the picture was painted last, in milliseconds; 0 while plotly's own is in sight.
    this.painted = 0;
    const moves = {
      prepare: () => this.shown ?? this.compute(),
      move: (name, value) => this.move(name, value),
      release: () => this.release(),
      cancel: () => this.giveUp(),
    };
    this.skyline = new Skyline(parent, moves);
    this.knobs = new Knobs(parent, moves);
    this.drag = new NumberDrag((event) => this.grabbed(event));
    // A finger on the marked cell does not scroll the page.
    window.addEventListener("touchmove", (event) => this.drag.held && event.preventDefault(), {
      signal: this.drag.stop.signal,
      passive: false,
    });
  }

  get picture() {
    return SHARED.pictures.get(this.data.chart);
  }

  // Whether a hand holds something, or what it has left is not answered yet.
  get isAhead() {
    return this.moving || this.heard < this.count;
  }

  // Take what the server knows now, but for an answer to an earlier move than the last.
  update(data, send) {
    if (!(data.released >= this.heard)) this.count = data.released; // at first, and of another session
    Object.assign(this, { send, heard: data.released, waiting: data });
    // What the server has written meanwhile is of an earlier move.
    if (this.isAhead) return this.present();
    Object.assign(this, { data, waiting: null });
    SHARED.hands.set(data.chart, this);
    this.shown = null;
    if (data.sides) this.take(data);
    else this.stopPainting();
    this.rest();
    this.settle();
  }

  // Make ready what the browser computes the layer with.
  take(data) {
    const programs = unpacked(data);
    const side = (name) => {
      const { [name]: each } = data.sides;
      if (!each?.settled) return each && makeSide({ ...each, program: programs[each.program] }, data[name]);
      return makeSide({ settled: { x_hat: data[`${name}_hat`], q: data[`${name}_codes`], refused: null } });
    };
    this.sides = { x: side("x"), w: side("w") };
    this.metrics = makeParts(data.metrics);
    this.integers = data.integers && makeIntegers(data.integers, programs);
    this.ofWeight = null;
    this.ofHeld = null;
    this.choice = { x: data.x, w: data.w, calibration: data.set ?? null, message: null };
    // A larger layer is computed once a hand comes.
    if (data.small) this.compute();
  }

  compute() {
    this.shown = this.computed(this.choice);
    if (this.shown.refused) throw new Error(`refused what the server computed: ${this.shown.refused.key}`);
  }

  // Show the ceiling and the knobs where the server has them.
  rest() {
    const { data } = this;
    this.skyline.show(data, data.reach ? ceilingOf(data.reach) : null);
    this.knobs.show(data.small ? this.knobList() : [], data.colors, data.writing);
  }

  // The knobs that the layer has, each from one end to the other of what it may be.
  knobList() {
    const { data } = this;
    const [, output, channel] = data.cell;
    const words = (name) => filled(data.words[name], { output, channel });
    const list = [];
    const size = largestOf(channelOf(this.choice.x, channel, data.shape));
    if (size) {
      const most = wideEnough(2 * largestOf(data.base), size);
      list.push({ name: "channel", words: words("channel"), value: size, least: 0, most });
    }
    const value = data.w[this.weightAt];
    const far = wideEnough(1.5 * data.largest, Math.abs(value));
    return [...list, { name: "weight", words: words("weight"), value, least: -far, most: far }];
  }

  get weightAt() {
    const [, output, channel] = this.data.cell;
    return output * this.data.shape[1] + channel;
  }

  // What a pointer takes hold of: the marked weight in Wᵀ, or the marked input in X, whose channel grows and
  // shrinks as a whole.
  grabbed(event) {
    const { picture, data } = this;
    if (!picture?.gd || !picture.container?.contains(event.target)) return null;
    const found = partAt(picture.gd, event.clientX, event.clientY);
    const name = KNOBS[found?.part.name];
    const knob = this.knobs.knobs.get(name);
    if (!knob) return null;
    const { edges } = picture.known;
    const [rowAxis, colAxis] = AXES[found.part.name];
    const [token, output, channel] = data.cell;
    const marked = [token, channel, output];
    if (edges[rowAxis][found.row] !== marked[rowAxis] || edges[colAxis][found.col] !== marked[colAxis])
      return null;
    const { least, most } = knob;
    return {
      from: Number(knob.input.value),
      step: (most - least) / WAY,
      move: (value) => this.move(name, Math.min(Math.max(value, least), most)),
      release: () => this.release(),
      giveUp: () => this.giveUp(),
    };
  }

  move(name, value) {
    this.begin();
    const choice = this.chosen(name, value);
    const shown = this.computed(choice);
    if (shown.refused) return this.knobs.refuse(reasonOf(shown.refused, this.data.refusals), name);
    Object.assign(this, { choice, shown });
    this.knobs.refuse("");
    if (name === "ceiling") this.skyline.write(value);
    else this.knobs.write(name, value);
    this.present();
  }

  begin() {
    if (this.moving) return;
    if (!this.shown) this.compute();
    this.moving = true;
    this.painted = performance.now();
    this.before = { choice: this.choice, shown: this.shown };
    const old = this.integers ? OLD_BY_STEPS : OLD;
    for (const place of document.querySelectorAll(this.data.small ? old : OLD_BY_ERROR))
      place.dataset.qvWaits = "";
  }

  // The choice that a knob's place asks for, from what was chosen before.
  chosen(name, value) {
    const { data, before } = this;
    const [, output, channel] = data.cell ?? [null, null, null];
    if (name === "channel") {
      const size = Math.fround(value);
      const x = withChannel(before.choice.x, data.base, channel, size, data.shape[1]);
      return { ...before.choice, x, message: { kind: "channel", size, channel } };
    }
    if (name === "weight") {
      const w = before.choice.w.slice();
      w[this.weightAt] = value;
      return { ...before.choice, w, message: { kind: "weight", output, value: w[this.weightAt], channel } };
    }
    // Both ends of a range that is not symmetric move alike.
    const times = value / ceilingOf(data.reach);
    const ends = data.symmetric ? [-value, value] : data.reach.map((end) => end * times);
    const [lo, hi] = ends.map(Math.fround);
    const calibration = { id: "manual_range", lo, hi };
    return { ...before.choice, calibration, message: { kind: "range", lo, hi, channel } };
  }

  computed({ x, w, calibration }) {
    const { data } = this;
    const ofInputs = quantizedSide(this.sides.x, x, data.held, calibration);
    if (this.ofWeight?.w !== w)
      this.ofWeight = { w, found: quantizedSide(this.sides.w, w, new Uint8Array(data.shape[2])) };
    const ofWeight = this.ofWeight.found;
    const refused = ofInputs.refused ?? ofWeight.refused;
    if (refused) return { refused };
    const { bias, bias_change: biasChange } = data;
    const sides = { x, xHat: ofInputs.x_hat, w, wHat: ofWeight.x_hat, bias, biasChange };
    if (!data.small) {
      this.ofHeld ??= heldError(sides, data.held, data.shape);
      return { ...sides, ofInputs, heldBack: this.ofHeld(ofInputs.x_hat) };
    }
    return {
      ...sides,
      ...multiplied(sides, data.shape, this.shown),
      ofInputs,
      ofWeight,
    };
  }

  // Show what is computed: the picture, the numbers, and the selected output.
  present() {
    const { data, shown, picture } = this;
    if (picture?.gd) this.live.paint(picture, this.parts(), data.look);
    if (!data.small) return writeHeldError(shown.heldBack, data.writing);
    const at = this.writeNumbers(shown);
    const { integers } = this;
    if (integers) writeIntegers(integerCell(integers, shown, data), integers, shown.yHat[at], data.writing);
  }

  // Write the numbers of all outputs and of the selected one, whose place is returned.
  writeNumbers(shown) {
    const { data } = this;
    const { found } = this.ofWeight;
    const errors = errorsOf(shown, data.held, data.shape[2]);
    if (this.weightDb?.of !== found) this.weightDb = { of: found, value: this.sqnrOf(found) };
    const at = data.cell[0] * data.shape[2] + data.cell[1];
    const cell = { y: shown.y[at], y_hat: shown.yHat[at], error: shown.error[at] };
    writeLayerNumbers({ ...errors, weightDb: this.weightDb.value, cell }, data.words, data.writing);
    return at;
  }

  // The values of X, W and Y that are looked at, and the ends of their colours.
  wholeOf({ x, w, y, xHat, wHat, yHat, xChange, wChange, error, ofInputs }) {
    const { ends, shown } = this.data;
    const values = {
      error: { x: xChange, w: wChange, y: error },
      x: { x, w, y },
      codes: { x: ofInputs.q ?? xHat, w: this.ofWeight.found.q ?? wHat, y: yHat },
    }[shown];
    return { values, ends: ends ?? [largestOf(values.x), largestOf(values.w), largestOf(y)] };
  }

  sqnrOf(quantized) {
    if (this.data.sides.w?.settled) return this.data.weight_db ?? Infinity;
    return this.sides.w ? metricsOf(this.metrics, momentsOf(quantized), 0, ["sqnr_db"]).sqnr_db : Infinity;
  }

  // The values of each part in view, and the end of its colours.
  parts() {
    const { data, shown, picture } = this;
    const [, inputs, outputs] = data.shape;
    const edges = [0, 1, 2].map((axis) => [picture.known.edges[axis][0], picture.known.edges[axis].at(-1)]);
    if (!data.small) return { x: this.pooledInputs() };
    const { values: whole, ends } = this.wholeOf(shown);
    const cut = (name, rows, cols, width, step, end) => {
      const inView = (values, Kind) => {
        const found = new Kind((rows[1] - rows[0]) * (cols[1] - cols[0]));
        let at = 0;
        for (let row = rows[0]; row < rows[1]; row++)
          for (let col = cols[0]; col < cols[1]; col++) found[at++] = values[row * width + col * step];
        return found;
      };
      const values = inView(whole[name], Float32Array);
      return {
        values,
        rows: rows[1] - rows[0],
        cols: cols[1] - cols[0],
        end,
        largest: largestOf(values),
        // Needed where numbers are printed alone.
        noise: () => inView(noiseOf(shown, data.shape, data.noise)[name], Float64Array),
      };
    };
    return {
      x: cut("x", edges[0], edges[1], inputs, 1, ends[0]),
      // Wᵀ is drawn, W is stored.
      w: cut("w", edges[1], edges[2], 1, inputs, ends[1]),
      y: cut("y", edges[0], edges[2], outputs, 1, ends[2]),
    };
  }

  // X of a larger layer in the pixels of its picture.
  pooledInputs() {
    const { data, shown, picture } = this;
    const { edges, ends } = picture.known;
    const values = {
      error: () => changesOf(shown.x, shown.xHat),
      x: () => shown.x,
      codes: () => shown.ofInputs.q,
    };
    const found = pooled(values[data.shown](), data.shape[1], edges[0], edges[1]);
    return {
      ...found,
      end: ends[0],
      largest: largestOf(found.values),
      noise: () => new Float64Array(found.values.length),
    };
  }

  release() {
    if (!this.moving) return;
    this.moving = false;
    const { message } = this.choice;
    if (this.choice === this.before.choice || !message) return this.giveUp();
    this.painted = performance.now();
    this.send("release", { ...message, count: (this.count += 1) });
  }

  // Show again what there was before the hand came.
  giveUp() {
    if (this.moving) Object.assign(this, this.before);
    this.moving = false;
    this.rest();
    if (this.shown) this.present();
    this.stopPainting();
    if (this.waiting) this.update(this.waiting, this.send);
  }

  // The canvas gives way once plotly has drawn the same values.
  settle() {
    const { picture } = this;
    if (this.isAhead || !this.painted) return;
    const drawn = picture?.gd && this.isDrawn(picture.gd);
    if (drawn || performance.now() - this.painted > PATIENCE) return this.stopPainting();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.settle(), 100);
  }

  isDrawn(gd) {
    if (!this.shown) this.compute();
    // Of a larger layer the first part alone.
    return Object.values(this.parts()).every(({ values, cols }, at) =>
      values.every((value, i) => gd._fullData?.[at]?.z?.[Math.floor(i / cols)]?.[i % cols] === value),
    );
  }

  stopPainting() {
    this.painted = 0;
    this.live.remove();
    for (const place of document.querySelectorAll("[data-qv-waits]")) delete place.dataset.qvWaits;
  }

  close() {
    clearTimeout(this.timer);
    this.drag.close();
    this.skyline.close();
    this.knobs.close();
    this.stopPainting();
    if (SHARED.hands.get(this.data.chart) === this) SHARED.hands.delete(this.data.chart);
  }
}

function ceilingOf([lo, hi]) {
  return Math.max(-lo, hi);
}

// An end of a slider that the value lies within: `far`, or as many times doubled as it takes.
function wideEnough(far, value) {
  let end = far || 1;
  while (end < value) end *= 2;
  return end;
}
