// The picture of a layer's multiplication under the pointer: it lights the lines of an output, selects it on
// a click, and asks the server for the part that was zoomed to.

import { SHARED, tuckAway } from "../page/component.js";
import { plainNumber, span } from "../panels/numbers.js";
import { PageChart } from "../panels/page_chart.js";
import { stretchOf } from "../panels/cells.js";
import { AXES, fitNumbers, partsOf, partAt } from "./parts.js";
import { drawLights, newOverlay } from "./lights.js";

// Milliseconds that a mark waits for the server's answer.
const PATIENT = 4000;
// Milliseconds after which the height of the chart's place is sent, and the least one, in pixels.
const SETTLED = 400;
const LEAST_HEIGHT = 100;

export class Multiplication extends PageChart {
  constructor(parent) {
    super();
    tuckAway(parent, true);
    // A line of the table of products chooses its channel.
    document.addEventListener("click", (event) => this.chooseLine(event), { signal: this.stop.signal });
  }

  update(known, send) {
    this.known = { ...known, heldRows: heldRows(known) };
    this.send = send;
    SHARED.pictures.set(known.chart, this);
    this.pending = null;
    this.card.paint(known.colors);
    this.find();
    this.draw();
  }

  close() {
    super.close();
    this.listening?.abort();
    if (SHARED.pictures.get(this.known.chart) === this) SHARED.pictures.delete(this.known.chart);
  }

  find() {
    const container = document.querySelector(`.st-key-${CSS.escape(this.known.chart)}`);
    if (container !== this.container) this.listen(container);
    const gd = container?.querySelector(".js-plotly-plot") ?? null;
    if (this.gd && gd !== this.gd) this.lose();
    if (gd && gd !== this.gd && typeof gd.on === "function") this.adopt(gd);
  }

  listen(container) {
    this.listening?.abort();
    this.container = container;
    if (!container) return;
    container.style.position = "relative";
    this.listening = new AbortController();
    const options = { signal: this.listening.signal };
    container.addEventListener("pointermove", (event) => this.point(event), options);
    container.addEventListener(
      "pointerleave",
      (event) => event.pointerType === "touch" || this.leave(),
      options,
    );
    container.addEventListener("pointerdown", (event) => this.press(event), { ...options, capture: true });
    window.addEventListener("pointerup", (event) => this.release(event), { ...options, capture: true });
    window.addEventListener("pointercancel", () => (this.down = null), options);
    // The browser counts clicks as the person's system does, however busy the page is.
    container.addEventListener("mousedown", (event) => this.down && (this.down.second = event.detail === 2), {
      ...options,
      capture: true,
    });
  }

  adopt(gd) {
    this.gd = gd;
    this.overlay ??= newOverlay();
    gd.on("plotly_afterplot", () => gd === this.gd && this.drawn());
    gd.on("plotly_relayout", (change) => gd === this.gd && this.zoomed(change));
    gd.on("plotly_relayouting", () => gd === this.gd && this.draw());
    this.drawn();
  }

  drawn() {
    const place = this.gd.querySelector(".svg-container");
    const parts = partsOf(this.gd);
    if (!place || !parts.length) return;
    for (const part of parts)
      fitNumbers(part, this.gd.querySelectorAll(`${part.heatmap} text`), this.known.writing);
    if (this.overlay.parentNode !== place) place.append(this.overlay);
    // Streamlit draws a chart once more where its place has another height than it was made for.
    const room = Math.round(this.gd.parentElement.clientHeight);
    if (Math.abs(this.gd._fullLayout.height - room) <= 1) this.dropGhost();
    this.draw();
    SHARED.hands.get(this.known.chart)?.settle();
    if (room >= LEAST_HEIGHT) this.later("height", SETTLED, () => this.tellHeight(room));
  }

  // Send the height of the chart's place. The answer is another chart: not while a pointer is down in this.
  tellHeight(room) {
    if (this.down) this.later("height", SETTLED, () => this.tellHeight(room));
    else if (room !== this.known.height) this.send("height", room);
  }

  draw() {
    if (!this.overlay || !this.gd) return;
    const { width, height } = this.gd.getBoundingClientRect();
    this.place = { left: 0, top: 0, width, height };
    drawLights(this.overlay, this.gd, {
      ...this.known,
      selected: this.pending ?? this.known.selected,
      pixels: this.pixels,
    });
  }

  point(event) {
    if (event.buttons) return this.leave();
    const found = partAt(this.gd, event.clientX, event.clientY);
    if (!found) return this.leave();
    this.light(found);
    this.card.show(this.words(found), event.clientX, event.clientY, event.pointerType === "touch");
  }

  light({ part, row, col }) {
    this.pixels = [null, null, null];
    const [rowAxis, colAxis] = AXES[part.name];
    this.pixels[rowAxis] = row;
    this.pixels[colAxis] = col;
    this.draw();
  }

  leave() {
    if (!this.pixels) return;
    this.pixels = null;
    this.card.hide();
    this.draw();
  }

  // The card's lines: the place and the value there.
  words({ part, row, col }) {
    const { edges, labels, whats } = this.known;
    const [rowAxis, colAxis] = AXES[part.name];
    const [ofRow, ofCol] = [
      [edges[rowAxis], row],
      [edges[colAxis], col],
    ].map(([all, pixel]) => [all[pixel], all[pixel + 1] - all[pixel]]);
    const value = part.values[row][col];
    const one = ofRow[1] * ofCol[1] === 1;
    const { largest, writing } = this.known;
    return [
      [labels[rowAxis], span(...ofRow)],
      [labels[colAxis], span(...ofCol)],
      [one ? whats[part.name] : `${whats[part.name]} ${largest}`, plainNumber(value, 4, writing)],
    ];
  }

  press(event) {
    if (event.button || !event.isPrimary || event.target.closest?.(".modebar")) return;
    this.down = { x: event.clientX, y: event.clientY, touch: event.pointerType === "touch" };
  }

  release(event) {
    const { down } = this;
    this.down = null;
    if (!down || !event.isPrimary) return;
    if (Math.hypot(event.clientX - down.x, event.clientY - down.y) > (down.touch ? 10 : 4)) return;
    if (down.second) return this.send("whole", true);
    const found = partAt(this.gd, down.x, down.y);
    if (!found) return;
    if (down.touch) this.point({ clientX: down.x, clientY: down.y, buttons: 0, pointerType: "touch" });
    this.select(found);
  }

  // A click in Y selects the output, one in X its token, one in Wᵀ its output, and in both the channel.
  select({ part, row, col }) {
    const { edges, selected } = this.known;
    const [rowAxis, colAxis] = AXES[part.name];
    const chosen = [...selected];
    const places = { 0: 0, 1: 2, 2: 1 };
    chosen[places[rowAxis]] = edges[rowAxis][row];
    chosen[places[colAxis]] = edges[colAxis][col];
    if (part.name === "y") chosen[2] = null;
    this.pending = chosen;
    this.draw();
    this.send("cell", { token: chosen[0], output: chosen[1], channel: chosen[2] });
    this.later("pending", PATIENT, () => {
      this.pending = null;
      this.draw();
    });
  }

  chooseLine(event) {
    const line = event.target.closest?.(".qv-products tr[data-channel]");
    if (!line) return;
    const [token, output] = this.known.selected;
    this.send("cell", { token, output, channel: Number(line.dataset.channel) });
  }

  // Ask for the part that was drawn a box around; axes that are the same are zoomed together.
  zoomed(change) {
    this.draw();
    if (!Object.keys(change).some((name) => /^[xy]axis\d?\.range/.test(name))) return;
    const [x, w, y] = partsOf(this.gd);
    const touched = (axis) => Object.keys(change).some((name) => name.startsWith(`${axis}.range`));
    const inputs = touched("yaxis2") ? [w.y[1], w.y[0]] : x.x;
    const sights = [[x.y[1], x.y[0]], inputs, y.x];
    const lines = sights.map((sight, axis) => this.cellsIn(sight, axis));
    this.send("lines", { tokens: lines[0], inputs: lines[1], outputs: lines[2] });
  }

  cellsIn([low, high], axis) {
    const edges = this.known.edges[axis];
    const last = edges.length - 2;
    const first = Math.min(Math.max(Math.round(low + 0.25), 0), last);
    const end = Math.min(Math.max(Math.round(high - 0.25), first), last);
    return [edges[first], edges[end + 1]];
  }
}

// The rows of pixels that the tokens held back take, [first, end] each; a pixel may stand for several tokens.
function heldRows({ edges, held }) {
  const [first, last] = [edges[0][0], edges[0].at(-1)];
  return Array.from(held)
    .filter((token) => token >= first && token < last)
    .map((token) => {
      const pixel = stretchOf(edges[0], token);
      const tall = edges[0][pixel + 1] - edges[0][pixel];
      const from = pixel + (token - edges[0][pixel]) / tall;
      return [from, from + 1 / tall];
    });
}
