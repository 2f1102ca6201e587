// A tensor on a page without a server. The page is its own server: a move of the hand leads to other data.

import { Hand } from "../hand/hand.js";
import { writePlace } from "../hand/texts.js";
import { SHARED } from "../page/component.js";
import { indexIn } from "../page/index_in.js";
import { Bridge } from "../panels/bridge.js";
import { readCells } from "../panels/cells.js";
import { addressOf, editsOf, flatOf, movedTo, readAddress, schemeOf } from "./moves.js";
import { Page } from "./page.js";

export class TensorPage extends Page {
  make({ cells }) {
    this.hand = new Hand(document.getElementById("qv-hand"));
    this.send = (name, message) => {
      const { edits } = this.hand.choice;
      queueMicrotask(() => this.show(movedTo(this.data, message, edits)));
    };
    if (this.figure) this.open(readCells(cells));
    // What was selected, and the values that were moved, in a page beside this one.
    addEventListener("message", ({ source, data: { cell, edits } }) => {
      if (source !== parent || !this.told || !cell) return;
      const now = this.chosen(this.data);
      if (`${now.cell} ${now.edits}` === `${cell} ${edits}`) return;
      const { shape, x } = this.saved;
      const moved = x.slice();
      for (const [place, value] of edits) moved[flatOf(place, shape)] = value;
      this.show({ ...this.data, x: moved, selected: flatOf(cell, shape) });
    });
  }

  asked(address) {
    return readAddress(this.saved, address);
  }

  addressOf(data) {
    return addressOf(data, this.saved);
  }

  scheme(data) {
    return schemeOf(data);
  }

  chosen(data) {
    const cell = indexIn(data.shape, data.selected);
    return { scheme: schemeOf(data), cell, edits: editsOf(data, this.saved) };
  }

  render(data) {
    const row = this.panels && this.rowAndColumn();
    if (row) this.bridge.update(this.component(row));
    this.hand.update({ ...data, scheme: schemeOf(data), chosen: data !== this.saved }, this.send);
    writePlace(indexIn(data.shape, data.selected), data.words.place);
    this.hand.writeNumbers();
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
    const { paddingLeft, paddingRight } = getComputedStyle(document.body);
    const room = document.body.clientWidth - parseFloat(paddingLeft) - parseFloat(paddingRight);
    return widths.findLast((width) => width <= room) ?? widths[0];
  }

  draw() {
    this.width = this.fitting;
    this.panels.closest("section").style.width = `${this.width}px`;
    const { layouts, config } = this.figure;
    const data = this.figure.data.map(({ shape, z, ...trace }) => {
      if (!z) return trace;
      const [rows, cols] = shape;
      const lines = Array.from({ length: rows }, (_, row) => z.subarray(row * cols, (row + 1) * cols));
      return { ...trace, z: lines };
    });
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
