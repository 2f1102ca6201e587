// A page without a server: what `quantviz/live/standalone.py` wrote into it, brought to life. The page is its own
// server: a move of the hand leads to other data.

import { MADE } from "./arithmetic/quantizing.js";
import { writePlace } from "./hand/words.js";
import { Hand } from "./hand/hand.js";
import { readPacked, SHARED } from "./page/component.js";
import { Bridge } from "./panels/bridge.js";
import { readCells } from "./panels/cells.js";
import { indexIn } from "./page/index_in.js";
import { addressOf, editsOf, movedTo, readAddress, schemeOf } from "./alone/moves.js";

class Page {
  constructor({ pieces, programs }) {
    for (const [name, made] of Object.entries(programs)) MADE.set(name, made);
    Object.assign(this, JSON.parse(new TextDecoder().decode(pieces.page)));
    this.place = document.getElementById("qv-hand");
    this.saved = readPacked(pieces.hand);
    this.hand = new Hand(this.place);
    this.send = (name, message) => {
      const { edits } = this.hand.choice;
      queueMicrotask(() => this.show(movedTo(this.data, message, edits)));
    };
    if (this.figure) this.open(readCells(pieces.cells));
    document.getElementById("qv-reset").addEventListener("click", () => this.show(this.saved));
    addEventListener("hashchange", () => location.hash.slice(1) !== this.address && this.read());
    this.read();
    const { body } = document;
    if (this.told)
      new ResizeObserver(() => parent.postMessage({ height: body.offsetHeight }, "*")).observe(body);
  }

  // Show what the address asks for; of one that cannot be used the page says so, and shows what was saved.
  read() {
    const asked = location.hash.length > 1 && !this.told;
    const data = asked ? readAddress(this.saved, location.hash.slice(1)) : this.saved;
    document.getElementById("qv-lost").hidden = data !== null;
    this.show(data ?? this.saved);
  }

  show(data) {
    this.data = data;
    const cell = indexIn(data.shape, data.selected);
    const row = this.panels && this.rowAndColumn();
    if (row) this.bridge.update(this.component(row));
    this.hand.update({ ...data, scheme: schemeOf(data), chosen: data !== this.saved }, this.send);
    writePlace(cell, data.words.place);
    this.hand.writeNumbers();
    document.getElementById("qv-scheme").textContent = schemeOf(data);
    document.getElementById("qv-reset").disabled = data === this.saved;
    this.address = data === this.saved ? "" : addressOf(data, this.saved);
    // In a notebook the page has no address of its own, and tells the notebook instead.
    if (this.told)
      parent.postMessage({ scheme: schemeOf(data), cell, edits: editsOf(data, this.saved) }, "*");
    else if (this.address !== location.hash.slice(1)) history.replaceState(null, "", `#${this.address}`);
  }

  // ---- the panels, which plotly draws

  open(cells) {
    SHARED.cells.set(this.chart, new Map([[this, cells]]));
    this.panels = document.getElementById("qv-panels");
    this.bridge = new Bridge(this.chart);
    SHARED.bridges.set(this.chart, this.bridge);
    const drawn = this.draw();
    // The canvas over the panels follows a zoom.
    const follow = () => this.hand.data && this.hand.settle();
    drawn.then((chart) => ["afterplot", "relayouting"].forEach((name) => chart.on(`plotly_${name}`, follow)));
    new ResizeObserver(() => this.fitting !== this.width && this.draw()).observe(document.body);
  }

  // The greatest width that there is a layout for, of those that fit.
  get fitting() {
    const widths = Object.keys(this.figure.layouts).map(Number);
    const room = this.panels.parentElement.parentElement.clientWidth;
    return widths.findLast((width) => width <= room) ?? widths[0];
  }

  draw() {
    this.width = this.fitting;
    this.panels.closest("section").style.width = `${this.width}px`;
    const { data, layouts, config } = this.figure;
    this.bridge.update(this.component(this.data ? this.rowAndColumn() : this.state.selected));
    return window.Plotly.react(this.panels, data, { ...layouts[this.width], width: this.width }, config);
  }

  component(selected) {
    return {
      data: { ...this.state, selected, width: this.width },
      parentElement: document.getElementById("qv-bridge"),
      setTriggerValue: (name, { row, col }) => name === "cell" && this.select(row, col),
      setStateValue: () => {},
    };
  }

  // The row and the column in the picture of the selected place.
  rowAndColumn() {
    const { places, selected, seen } = this.data;
    const at = places.indexOf(selected);
    return at < 0 ? null : [Math.floor(at / seen[1]), at % seen[1]];
  }

  select(row, col) {
    const { places, seen } = this.data;
    this.show({ ...this.data, selected: places[row * seen[1] + col] });
  }
}

window.quantvizPage = new Page(window.quantvizParts);
