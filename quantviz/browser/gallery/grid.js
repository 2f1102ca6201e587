// One panel of the board: a table whose cells are coloured and printed by their values.

import { colourCells, inkFor } from "../panels/colours.js";
import { numberText } from "../panels/numbers.js";
import { fitting } from "../panels/printed_values.js";

// The largest font size in pixels, but on a projector.
const LARGEST_TYPE = 13;
// The share of a cell's width that values take: the rest is for its frame.
const WIDE = 0.84;

export class Grid {
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
