// One panel of the board: a table whose cells are coloured and printed by their values.

import { colourCells, inkFor } from "../hand/colours.js";
import { ems, numberText } from "../panels/numbers.js";

// The largest font size in pixels.
const LARGEST_TYPE = 13;
// The share of a cell's width that values take: the rest is for its frame.
const WIDE = 0.84;

export class Grid {
  // `values` are those of all frames, one frame after the other.
  constructor(figure, name, label, values, data) {
    const [rows, cols] = data.shape;
    Object.assign(this, { name, values, data, count: rows * cols });
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
    this.pixels = new Uint32Array(this.count);
    this.bytes = new Uint8Array(this.pixels.buffer);
    this.widest = new Map();
  }

  // How values are printed where cells are as large as now: null where they do not fit.
  fit() {
    const { writing, styles } = this.data;
    const [{ clientWidth: width, clientHeight: height }] = this.cells;
    const tallest = height * writing.tall;
    this.print = null;
    if (tallest < writing.smallest) return;
    for (const style of styles[this.name]) {
      const size = Math.min(LARGEST_TYPE, tallest, (width * WIDE) / this.widestOf(style));
      if (size < writing.smallest) continue;
      this.print = style;
      this.table.style.setProperty("--type", `${size.toFixed(1)}px`);
      return;
    }
  }

  // The widest value of all frames in a style, for a font of size 1: numbers do not jump while a hand drags,
  // and are as large in both rows. `peers` are the grids of one column.
  widestOf(style) {
    const key = JSON.stringify(style);
    let widest = this.widest.get(key);
    if (widest) return widest;
    const { writing } = this.data;
    const wide = (most, value) => Math.max(most, ems(numberText(value, style, writing), writing));
    widest = this.peers.reduce((most, { values }) => values.reduce(wide, most), 0);
    this.widest.set(key, widest);
    return widest;
  }

  show(frame, lit, marked) {
    const { count, data, cells, pixels, bytes, print } = this;
    const values = this.values.subarray(frame * count, (frame + 1) * count);
    const scale = data.scales[this.name];
    colourCells(values, scale, pixels);
    for (let i = 0; i < count; i++) {
      const { style, classList } = cells[i];
      // What is no number has no colour.
      style.background = bytes[4 * i + 3] ? `rgb(${bytes.subarray(4 * i, 4 * i + 3).join(" ")})` : "";
      style.color = bytes[4 * i + 3] ? inkFor(scale, values[i]) : "";
      const label = print ? numberText(values[i], print, data.writing) : "";
      if (cells[i].textContent !== label) cells[i].textContent = label;
      classList.toggle("qv-lit", Boolean(lit?.[i]));
      classList.toggle("qv-marked", i === marked);
    }
  }
}
