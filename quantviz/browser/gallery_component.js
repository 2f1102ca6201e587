// The board of a bug: one x, beside it what the correct and the broken program make of it, and a handle that
// brings the bug into view. The server has run both programs at each value of the handle; the hand chooses.

import { boardRules } from "./gallery/rules.js";
import { lasting } from "./page/component.js";
import { arrowStep, cellBeside } from "./page/keys.js";
import { KeysMove } from "./page/keys_move.js";
import { colourCells, inkFor } from "./panels/colours.js";
import { numberText } from "./panels/numbers.js";
import { fitting } from "./panels/printed_values.js";

// ---- one panel of the board: a table whose cells are coloured and printed by their values ------

// The largest font size in pixels, but on a projector.
const LARGEST_TYPE = 13;
// The share of a cell's width that values take: the rest is for its frame.
const WIDE = 0.84;

class Grid {
  constructor(figure, name, label, data) {
    const [rows, cols] = data.shape;
    Object.assign(this, { name, data, count: rows * cols });
    const numbers = Array.from({ length: cols }, (_, col) => `<th scope="col">${col}</th>`).join("");
    const line = (row) => `<tr><th scope="row">${row}</th>${"<td></td>".repeat(cols)}</tr>`;
    figure.className = "qv-panel";
    figure.dataset.panel = name;
    figure.innerHTML = `<figcaption></figcaption><table><tbody>
      ${Array.from({ length: rows }, (_, row) => line(row)).join("")}
      </tbody><tfoot><tr><td class="qv-corner"></td>${numbers}</tr></tfoot></table>`;
    figure.querySelector("figcaption").textContent = data.titles[name];
    this.table = figure.querySelector("table");
    this.table.setAttribute("aria-label", label);
    this.cells = [...figure.querySelectorAll("tbody td")];
    // On a light page and on a dark one.
    this.pixels = data.scales[name].map(() => new Uint32Array(this.count));
    this.bytes = this.pixels.map(({ buffer }) => new Uint8Array(buffer));
  }

  // How the values of a frame are printed where cells are as large as now, and how large; null where they do
  // not fit. `peers` are the grids of one column, whose values are printed alike.
  fit(frame) {
    const { data, peers, name } = this;
    const [{ clientWidth: width, clientHeight: height }] = this.cells;
    const values = peers.flatMap((grid) => Array.from(grid.valuesAt(frame), (value) => ({ value })));
    const writing = { ...data.writing, wide: WIDE };
    return fitting(values, data.styles[name], { width, height }, LARGEST_TYPE * data.enlarge, writing);
  }

  valuesAt(frame) {
    return this.values.subarray(frame * this.count, (frame + 1) * this.count);
  }

  show(frame, lit, marked) {
    const { count, data, cells, pixels, bytes } = this;
    const values = this.valuesAt(frame);
    const print = this.fit(frame);
    if (print) this.table.style.setProperty("--type", `${print.size.toFixed(1)}px`);
    const scales = data.scales[this.name];
    scales.forEach((scale, dark) => colourCells(values, scale, pixels[dark]));
    for (let i = 0; i < count; i++) {
      const { style, classList } = cells[i];
      const colours = bytes.map((each) => `rgb(${each.subarray(4 * i, 4 * i + 3).join(" ")})`);
      const inks = scales.map((scale) => inkFor(scale, values[i]));
      // What is no number has no colour.
      const isNumber = bytes[0][4 * i + 3];
      style.background = isNumber ? `light-dark(${colours})` : "";
      style.color = isNumber ? `light-dark(${inks})` : "";
      const label = print ? numberText(values[i], print.style, data.writing) : "";
      if (cells[i].textContent !== label) cells[i].textContent = label;
      classList.toggle("qv-lit", Boolean(lit?.[i]));
      classList.toggle("qv-marked", i === marked);
    }
  }
}

// Milliseconds of rest after which the server is told where the hand is.
const REST = 160;
// Milliseconds after which what the server says holds, whatever it was told.
const PATIENCE = 4000;
const MADE = ["q", "x_hat", "error"];

// What a hand chooses, of which the server is told after a rest. Until that has answered the hand knows better.
class Choice extends KeysMove {
  // `tell(value)` sends it.
  constructor(tell) {
    super(() => {
      this.trusted = performance.now() + PATIENCE;
      tell(this.value);
    });
  }

  // Take what the server says of the `same` board as before, or of another one.
  take(value, same, held = false) {
    if (!same) this.forget();
    else if (value !== this.value && (held || this.runs || performance.now() < this.trusted)) return;
    Object.assign(this, { value, trusted: 0 });
  }
}

class Board {
  constructor(host) {
    this.root = host.appendChild(document.createElement("div"));
    this.root.className = "qv-board";
    this.at = new Choice((at) => this.send("at", at));
    this.marked = new Choice((place) => {
      const [, cols] = this.data.shape;
      this.send("cell", { row: Math.floor(place / cols), col: place % cols });
    });
    this.observer = new ResizeObserver(() => this.grids && this.show());
    this.observer.observe(this.root);
  }

  update(data, send) {
    const same = JSON.stringify(data.board) === JSON.stringify(this.data?.board);
    const { activeElement } = this.root.getRootNode();
    const focused = this.root.contains(activeElement) ? activeElement?.tagName : null;
    Object.assign(this, { data, send });
    const [row, col] = data.cell;
    this.at.take(data.at, same, this.held);
    this.marked.take(row * data.shape[1] + col, same);
    // While something is held it must stay.
    if (!same) {
      Object.assign(this, { held: false, found: Boolean(data.handle?.shows[data.at]) });
      this.build();
    }
    this.fill();
    this.show();
    if (!same && focused) this.root.querySelector(focused === "INPUT" ? "input" : "table")?.focus();
  }

  build() {
    const { root, data } = this;
    const { handle, rows, colors } = data;
    root.innerHTML = `<style>${boardRules(colors)}</style><div class="qv-board-grid">
      ${handle ? HAND : ""}</div><div class="qv-heard" role="status"></div>`;
    const grid = root.querySelector(".qv-board-grid");
    const [down, across] = data.shape;
    for (const [name, value] of [
      ["--rows", down],
      ["--cols", across],
      ["--first", handle ? 2 : 1],
      ["--spans", 2 * rows.length],
    ])
      grid.style.setProperty(name, value);
    grid.classList.toggle("qv-long", down === 1);
    grid.classList.toggle("qv-handled", Boolean(handle));
    grid.classList.toggle("qv-alone", rows.length === 1);
    this.heard = root.querySelector(".qv-heard");
    this.grids = [];
    const one = grid.appendChild(document.createElement("figure"));
    this.addGrid(one, "x", data.titles.x);
    one.classList.add("qv-one");
    one.append(this.bar("x"));
    this.heads = rows.map((row) => this.addRow(grid, row));
    for (const each of this.grids) each.peers = this.grids.filter(({ name }) => name === each.name);
    for (const name of MADE) grid.append(this.bar(name));
    const legend = grid.appendChild(document.createElement("p"));
    legend.className = "qv-legend";
    legend.textContent = data.legend;
    const { table } = this.grids[0];
    table.tabIndex = 0;
    table.addEventListener("keydown", (event) => this.step(event));
    grid.addEventListener("click", (event) => this.click(event));
    if (handle) this.listen();
  }

  addRow(grid, row) {
    const head = document.createElement("div");
    head.className = "qv-row-head";
    head.dataset.row = row.name;
    head.innerHTML = `<b></b><span class="qv-number"></span><code></code> → <span class="qv-gives"></span>
      <span class="qv-ends"></span>`;
    head.querySelector("b").textContent = row.title;
    if (row.told.length) grid.append(head);
    for (const name of MADE) {
      const figure = grid.appendChild(document.createElement("figure"));
      figure.dataset.row = row.name;
      this.addGrid(figure, name, `${row.title} ${this.data.titles[name]}`.trim(), row.name);
    }
    return head;
  }

  addGrid(figure, name, label, row = null) {
    const grid = new Grid(figure, name, label, this.data);
    this.grids.push(Object.assign(grid, { row }));
  }

  // Take numbers for the tables; `values` are those of all frames, one frame after the other.
  fill() {
    const { data } = this;
    for (const grid of this.grids) {
      grid.data = data;
      const row = data.rows.find((each) => each.name === grid.row);
      grid.values = !row ? data.x : grid.name === "error" ? errors(data.x, row.x_hat) : row[grid.name];
    }
  }

  // The colours of a column, which both rows share, and the values at their ends.
  bar(name) {
    const [{ ramp, stops, lo, hi }, { ramp: inTheDark }] = this.data.scales[name];
    const bar = document.createElement("div");
    bar.className = "qv-bar";
    bar.dataset.panel = name;
    bar.setAttribute("aria-hidden", "true");
    const place = (stop) => `${(100 * stop).toFixed(1)}%`;
    const shades = ramp.map((colour, i) => `light-dark(${colour}, ${inTheDark[i]}) ${place(stops[i])}`);
    bar.innerHTML = `<i style="background: linear-gradient(to right, ${shades})"></i><span></span>`;
    const [style] = this.data.styles[name];
    for (const end of [lo, hi])
      bar.lastChild.appendChild(document.createElement("span")).textContent = numberText(
        end,
        style,
        this.data.writing,
      );
    return bar;
  }

  // ---- what a hand does

  listen() {
    const { root, data } = this;
    const { handle } = data;
    const find = (name) => root.querySelector(name);
    this.parts = {
      hand: find(".qv-hand"),
      track: find(".qv-track"),
      input: find("input"),
      told: find(".qv-hand-at"),
      zones: find(".qv-zones"),
      said: find(".qv-said"),
    };
    find(".qv-hand-name").textContent = handle.name;
    // The track stays where it is while its number gets longer.
    this.parts.told.style.minWidth = `${Math.max(...handle.values.map((each) => each.length))}ch`;
    const { input } = this.parts;
    input.max = String(handle.values.length - 1);
    input.setAttribute("aria-label", handle.name);
    input.addEventListener("input", () => this.choose(Number(input.value)));
    input.addEventListener("change", () => this.tellSoon());
    input.addEventListener("pointerdown", () => (this.held = true));
    for (const name of ["pointerup", "pointercancel", "lostpointercapture"])
      input.addEventListener(name, () => (this.held = false));
  }

  choose(at) {
    this.at.value = at;
    this.found ||= Boolean(this.data.handle.shows[at]);
    this.show();
  }

  tellSoon() {
    this.heard.textContent = this.parts.said.textContent;
    this.at.goOn(REST);
  }

  click(event) {
    const cell = event.target.closest?.("tbody td");
    const grid = cell && this.grids.find(({ cells }) => cells.includes(cell));
    if (grid) this.mark(grid.cells.indexOf(cell));
  }

  step(event) {
    const step = arrowStep(event);
    if (!step) return;
    event.preventDefault();
    this.mark(cellBeside(this.marked.value, step, ...this.data.shape));
  }

  mark(place) {
    if (place === this.marked.value) return;
    this.marked.value = place;
    this.show();
    this.marked.goOn(REST);
  }

  // ---- what is shown

  show() {
    const {
      data,
      at: { value: at },
    } = this;
    const [rows, cols] = data.shape;
    const lit = data.lit?.subarray(at * rows * cols, (at + 1) * rows * cols);
    for (const grid of this.grids) grid.show(at, lit, this.marked.value);
    data.rows.forEach(({ told }, i) => {
      if (!told.length) return;
      // Number, code, the code's value, and its ends.
      const [, ...parts] = this.heads[i].children;
      parts.forEach((part, k) => (part.textContent = told[at][k]));
    });
    if (data.handle) this.showHand(at);
  }

  showHand(at) {
    const { data, parts, found } = this;
    const { values, shows, said, ask } = data.handle;
    const last = values.length - 1;
    parts.input.value = String(at);
    parts.input.setAttribute("aria-valuetext", values[at]);
    parts.told.textContent = values[at];
    parts.track.style.setProperty("--at", at / last);
    parts.hand.classList.toggle("qv-shown", Boolean(shows[at]));
    parts.said.textContent = "";
    if (!shows[at]) {
      const asked = parts.said.appendChild(document.createElement("b"));
      asked.textContent = ask;
      parts.said.append(" ");
    }
    parts.said.append(said[at]);
    // Where the bug shows is told once it was found.
    parts.zones.style.background = found ? zonesOf(shows, data.colors.lit) : "";
  }

  close() {
    this.at.forget();
    this.marked.forget();
    this.observer.disconnect();
    this.root.remove();
  }
}

const HAND = `<div class="qv-hand"><span class="qv-hand-name"></span>
  <b class="qv-hand-at" aria-hidden="true"></b>
  <div class="qv-track"><span class="qv-zones"></span><input type="range" min="0" step="1">
    <span class="qv-thumb" aria-hidden="true"></span></div>
  <p class="qv-said"></p></div>`;

// x̂ − x in float32, as the server subtracts.
function errors(x, made) {
  return Float32Array.from(made, (value, i) => value - x[i]);
}

// The parts of the track at which the bug shows, as a background.
function zonesOf(shows, colour) {
  const last = shows.length - 1;
  const stops = shows.flatMap((shown, i) => {
    const ink = shown ? `color-mix(in srgb, ${colour} 40%, transparent)` : "transparent";
    const [from, to] = [i - 0.5, i + 0.5].map((end) => `${((100 * end) / last).toFixed(2)}%`);
    return [`${ink} ${from}`, `${ink} ${to}`];
  });
  return `linear-gradient(to right, ${stops.join(", ")})`;
}

export default lasting(Board);
