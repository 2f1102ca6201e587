// A layer on a page without a server. The page is its own server: a move of the hand leads to other data, as
// `quantviz.lab.layer_moves` does.

import { channelOf, largestOf, multiplied, noiseOf, withChannel } from "../arithmetic/multiplying.js";
import { LayerHand } from "../multiplication/layer_hand.js";
import { reachOf } from "../multiplication/live_picture.js";
import { Multiplication } from "../multiplication/multiplication.js";
import { pooled } from "../multiplication/parts.js";
import { readPacked } from "../page/component.js";
import { significant } from "../panels/numbers.js";
import { editsOf, flatOf, schemeOf, withScheme } from "./moves.js";
import { Page } from "./page.js";
import { productsOf, writeProducts } from "./products.js";

class FollowedHand extends LayerHand {
  begin() {
    super.begin();
    // They follow the hand here, where the page has no server.
    if (this.data.small) delete document.querySelector(".qv-products").dataset.qvWaits;
  }

  present() {
    super.present();
    if (this.data.small) writeCell(this.data, this.shown);
  }
}

export class LayerPage extends Page {
  make({ picture }) {
    this.known = readPacked(picture);
    Object.assign(this.saved, { moved: {}, largest: largestOf(this.saved.w) });
    this.picture = new Multiplication(document.body);
    this.picture.update(this.known, (name, told) => this.hear(name, told));
    this.hand = new FollowedHand(document.getElementById("qv-hand"));
  }

  // The data with what the hand needs of the selected channel.
  ready(data) {
    return { ...data, base: channelOf(this.saved.x, data.cell[2], data.shape) };
  }

  hear(name, told) {
    if (name === "whole" && this.figure) return window.Plotly.relayout(this.panels, this.sights());
    if (name !== "cell") return;
    const { token, output, channel } = told;
    const loudest = () => productsOf(this.shown, this.data.shape, [token, output])[0].channel;
    this.show({ ...this.data, cell: [token, output, channel ?? loudest()] });
  }

  asked(address) {
    return readLayer(this.saved, address);
  }

  addressOf(data) {
    return layerAddress(data, this.saved);
  }

  // What a notebook is told: X's scheme, the selected product, and what was moved: channels and weights.
  chosen(data) {
    const scheme = data.variants.length ? schemeOf(data) : "";
    const sizes = Object.entries(data.moved).map(([channel, size]) => [[Number(channel)], size]);
    return { scheme, cell: data.cell, edits: [...sizes, ...weightEdits(data, this.saved)] };
  }

  scheme(data) {
    const ofInputs = data.variants.length ? schemeOf(data) : data.as_it_is;
    return `W ${data.of_weights} · X ${ofInputs}`;
  }

  render(data) {
    const { hand } = this;
    hand.update(this.ready(data), (name, message) =>
      queueMicrotask(() => this.show(movedLayer(this.data, message, this.saved))),
    );
    if (!hand.shown) hand.compute();
    const { shown } = hand;
    this.shown = shown.product ? shown : { ...shown, ...multiplied(shown, data.shape) };
    const { ends } = hand.wholeOf(this.shown);
    this.picture.update({ ...this.known, selected: data.cell, ends }, this.picture.send);
    if (this.figure) this.draw();
    hand.writeNumbers(this.shown);
    writeCell(data, this.shown);
  }

  // ---- the picture, which plotly draws

  draw() {
    const { data, known, figure } = this;
    const [, inputs, outputs] = data.shape;
    const { values, ends } = this.hand.wholeOf(this.shown);
    const own = noiseOf(this.shown, data.shape, data.noise);
    const parts = { x: [values.x, own.x, 0, 1], y: [values.y, own.y, 0, 2] };
    parts.w = [transposed(values.w, outputs, inputs), transposed(own.w, outputs, inputs), 1, 2];
    const annotations = figure.layout.annotations.slice();
    const traces = figure.data.map((trace, i) => {
      const [whole, noise, rowAxis, colAxis] = parts[trace.name];
      const edges = [known.edges[rowAxis], known.edges[colAxis]];
      const found = pooled(whole, data.shape[colAxis], ...edges);
      const reach = { end: ends[i], largest: largestOf(found.values) };
      const told = reachOf(reach, data.look.words, data.writing, data.look.fixed);
      annotations[i] = { ...annotations[i], text: `<b>${known.whats[trace.name]}</b> ${told}` };
      const printed = found.values.map((value, at) => (Math.abs(value) <= noise[at] ? 0 : value));
      const words = (value) => significant(value, 3, data.writing);
      const text = trace.texttemplate && rowsOf(printed, found.cols, words);
      const end = ends[i] || 1;
      return { ...trace, z: rowsOf(found.values, found.cols, Number), zmin: -end, zmax: end, text };
    });
    this.drawn = (this.drawn ?? 0) + 1;
    this.panels = document.getElementById("qv-panels");
    const layout = { ...figure.layout, annotations, uirevision: "kept", datarevision: this.drawn };
    window.Plotly.react(this.panels, traces, layout, {
      displayModeBar: false,
      doubleClick: false,
      responsive: true,
    });
  }

  sights() {
    const axes = Object.entries(this.figure.layout).filter(([name]) => /^[xy]axis/.test(name));
    return Object.fromEntries(axes.map(([name, { range }]) => [`${name}.range`, range]));
  }
}

function writeCell(data, shown) {
  writeProducts(productsOf(shown, data.shape, data.cell), data.cell[2], data.writing);
}

function rowsOf(values, cols, each) {
  const rows = Array.from({ length: values.length / cols }, (_, row) =>
    values.slice(row * cols, (row + 1) * cols),
  );
  return rows.map((row) => Array.from(row, each));
}

// W is drawn as Wᵀ.
function transposed(values, rows, cols) {
  const found = new Float64Array(values.length);
  for (let row = 0; row < rows; row++)
    for (let col = 0; col < cols; col++) found[col * rows + row] = values[row * cols + col];
  return found;
}

// The data after a move of the hand; the channel that it moved stays selected.
function movedLayer(data, { kind, lo, hi, size, output, value, channel }, saved) {
  const [, inputs] = data.shape;
  const cell = [data.cell[0], output ?? data.cell[1], channel ?? data.cell[2]];
  if (kind === "range") {
    const ends = { set: { id: "manual_range", lo, hi }, range: [lo, hi], reach: [lo, hi] };
    return { ...data, ...ends, cell };
  }
  if (kind === "channel") {
    const base = channelOf(saved.x, channel, data.shape);
    const moved = { ...data.moved, [channel]: size };
    return { ...data, moved, x: withChannel(data.x, base, channel, size, inputs), cell };
  }
  const w = data.w.slice();
  w[output * inputs + channel] = value;
  return { ...data, w, cell };
}

function weightEdits({ w, shape: [, inputs, outputs] }, saved) {
  return editsOf({ x: w, shape: [outputs, inputs] }, { x: saved.w });
}

// The scheme of X, the selected cell with its product, and the channels and weights that were moved.
function layerAddress(data, saved) {
  const parts = data.set ? { s: schemeOf(data) } : {};
  parts.c = data.cell.join(".");
  const sizes = Object.entries(data.moved).map(([channel, size]) => `${channel}=${size}`);
  const edits = weightEdits(data, saved).map(([place, value]) => `${place.join(".")}=${value}`);
  if (sizes.length) parts.x = sizes.join();
  if (edits.length) parts.w = edits.join();
  return `${new URLSearchParams(parts)}`;
}

// The data that an address asks for; null for one that is damaged, or is of another page.
function readLayer(saved, address) {
  const parts = new URLSearchParams(address);
  const [tokens, inputs, outputs] = saved.shape;
  const moves = [];
  const ranged = parts.has("s") ? saved.variants.length && withScheme(saved, parts.get("s")) : saved;
  if (ranged?.set) moves.push({ kind: "range", ...ranged.set });
  const places = [];
  for (const [kind, name] of [
    ["channel", "x"],
    ["weight", "w"],
  ])
    for (const each of (parts.get(name) ?? "").split(",").filter(Boolean)) {
      const [place, written] = each.split("=");
      const [channel, output] = place.split(".").map(Number).toReversed();
      const value = parseFloat(written);
      moves.push({ kind, channel, output, value, size: value });
      places.push([
        [output ?? 0, channel],
        [outputs, inputs],
      ]);
      if (!saved.small || !isFinite(value) || (kind === "channel" && value < 0)) return null;
    }
  const cell = parts.get("c")?.split(".").map(Number) ?? saved.cell;
  places.push([cell, [tokens, outputs, inputs]]);
  if (!ranged || !places.every(([place, shape]) => Number.isInteger(flatOf(place, shape)))) return null;
  return { ...moves.reduce((data, move) => movedLayer(data, move, saved), saved), cell };
}
