// What the browser does for the panels that the server cannot: tell which cell was clicked,
// show one cell in all of them at once, keep the zoom while the data changes, print the values that
// fit, look around in a matrix that is too large to be here, and report how wide the page is. It lives in the page, beside the plotly chart inside
// `.st-key-<chart>`; that chart is thrown away and drawn anew with each change of its data, so
// everything here is found again by `look` and nothing is kept on the chart itself.
//
// Two components share this file: one hands over the cells (bytes, large, change with the data),
// the other the state (small, changes with each click).

const SVG = "http://www.w3.org/2000/svg";
// Cells printed at most, the smallest size in pixels they are printed in, and a digit's width at size 1.
const MOST_PRINTED = 400;
const SMALLEST_PRINT = 9;
const CHARACTER = 0.52;
// The font of a saved picture.
const PLAIN = "sans-serif";
// Milliseconds without a move after which the part looked at is asked for, and until which its answer is waited for.
const QUIET = 200;
const PATIENCE = 4000;
const SPACE = (window.__quantviz ??= {});
for (const table of ["bridges", "cells", "states", "memory", "maps"]) SPACE[table] ??= new Map();

// Pixels across a printed page: A4 less its margins. A wider figure is printed smaller, for it would be cut.
const PAPER = 690;

if (!SPACE.printing) {
  SPACE.printing = true;
  const charts = () => document.querySelectorAll(".stPlotlyChart");
  window.addEventListener("beforeprint", () => {
    for (const chart of charts()) {
      const width = chart.clientWidth;
      // The width is held, or plotly would draw it anew for a page that is gone by then.
      Object.assign(chart.style, { width: `${width}px`, zoom: String(Math.min(1, PAPER / width)) });
    }
  });
  window.addEventListener("afterprint", () => {
    for (const chart of charts()) Object.assign(chart.style, { width: "", zoom: "" });
  });
}

export default function (component) {
  const { data, parentElement } = component;
  if (data instanceof Uint8Array) {
    const cells = readCells(data);
    const leave = enlist(SPACE.cells, cells.chart, parentElement, cells);
    SPACE.bridges.get(cells.chart)?.draw();
    tuckAway(parentElement, true);
    return leave;
  }
  let bridge = SPACE.bridges.get(data.chart);
  if (!bridge) SPACE.bridges.set(data.chart, (bridge = new Bridge(data.chart)));
  const leave = enlist(SPACE.states, data.chart, parentElement, component);
  bridge.update(component);
  return () => {
    const next = leave();
    if (next) return bridge.host === parentElement && bridge.update(next);
    bridge.close();
    SPACE.bridges.delete(data.chart);
  };
}

// Streamlit may mount a successor before it lets go of the one before, and call that one once more in between:
// each place in the page counts until it is left. Leaving tells what is in force then.
function enlist(table, chart, place, item) {
  if (!table.has(chart)) table.set(chart, new Map());
  const places = table.get(chart);
  places.delete(place);
  places.set(place, item);
  return () => {
    if (places.get(place) === item) places.delete(place);
    return [...places.values()].at(-1);
  };
}

// ---- cells ------------------------------------------------------------------------------------

const TYPES = { f4: Float32Array, f8: Float64Array, i1: Int8Array, u1: Uint8Array, i2: Int16Array, u2: Uint16Array, i4: Int32Array, u4: Uint32Array };

// A length, a JSON header of that length, then the arrays it names, each at a multiple of 8.
function readCells(bytes) {
  const aligned = bytes.slice().buffer;
  const length = new DataView(aligned).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(aligned, 4, length)));
  const arrays = {};
  for (const [name, [type, offset, count]] of Object.entries(header.arrays)) arrays[name] = new TYPES[type](aligned, offset, count);
  const each = (first, count) => Int32Array.from({ length: count + 1 }, (_, i) => first + i);
  return { row_edges: each(header.top, header.rows), col_edges: each(header.left, header.cols), ...header, ...arrays };
}

// The pixel that a cell of the matrix lies in, and the rows and columns it stands for: itself, where true cells are shown. None out of sight.
function pixelAt(cells, row, col) {
  const { row_edges, col_edges } = cells;
  const [i, j] = [stretchOf(row_edges, row), stretchOf(col_edges, col)];
  if (i < 0 || j < 0) return null;
  return { at: i * cells.cols + j, i, j, top: row_edges[i], left: col_edges[j], rows: row_edges[i + 1] - row_edges[i], cols: col_edges[j + 1] - col_edges[j] };
}

// Between which two edges a place lies, the first of them included.
function stretchOf(edges, place) {
  if (!(place >= edges[0] && place < edges.at(-1))) return -1;
  let [low, high] = [0, edges.length - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (edges[middle] <= place) low = middle;
    else high = middle;
  }
  return low;
}

// The cell whose value a panel shows at a pixel; none where it is a mean.
function cellShown(cells, pixel, panel) {
  const at = cells.how ? (panel === "error" ? cells.error_at : cells.x_at)?.[pixel.at] : 0;
  return at === undefined ? null : [pixel.top + Math.floor(at / pixel.cols), pixel.left + (at % pixel.cols)];
}

// What is left out, NaN and Inf, has no error.
function errorOf(x_hat, x) {
  return Number.isFinite(x) ? Math.fround(x_hat - x) : NaN;
}

// Whether a cell is left out, as far as its x has been sent.
function leftOut(cell) {
  return cell.x !== undefined && !Number.isFinite(cell.x);
}

// The numbers of one pixel: what the card, the printed values and the keyboard share.
function cellAt(cells, { at, i, j }) {
  // What is covered has not been sent.
  const cell = {};
  for (const name of cells.open) cell[name] = name === "error" && !cells.error ? errorOf(cells.x_hat[at], cells.x[at]) : cells[name][at];
  if (cells.cause) cell.cause = cells.cause[at];
  if (cells.code) cell.code = cells.code[at];
  if (cells.step) cell.step = cells.step[at];
  if (cells.block_of_row) {
    cell.block = cells.block_of_row[i] + cells.block_of_col[j];
    cell.scale = cells.scale[cells.scale_of_row[i] * cells.scale_cols + cells.scale_of_col[j]];
  } else if (cells.block_of_cell) {
    cell.block = cells.block_of_cell[at];
    cell.scale = cells.scale[at];
  }
  return cell;
}

// The error as the view shows it, in float32 as on the server; `view` is the server's entry of `ERROR_VIEWS`.
function shownError(cell, view) {
  const shown = view.signed ? cell.error : Math.abs(cell.error);
  if (!view.over) return shown;
  const by = Math.abs(cell[view.over]);
  return cell.error === 0 ? 0 : by === 0 ? NaN : Math.fround(shown / by);
}

// A code's bits as sign, exponent and mantissa, as many as each has.
function bitsOf(code, widths) {
  const bits = code.toString(2).padStart(
    widths.reduce((sum, width) => sum + width, 0),
    "0",
  );
  let from = 0;
  return widths
    .map((width) => bits.slice(from, (from += width)))
    .filter(Boolean)
    .join(" ");
}

// A block's place in the grid, without the axes along which there is only one: "3" or "3, 1".
function blockPlace(number, grid) {
  const place = [];
  for (let axis = grid.length - 1; axis >= 0; axis--) {
    if (grid[axis] > 1) place.unshift(number % grid[axis]);
    number = Math.floor(number / grid[axis]);
  }
  return place.join(", ");
}

// A number to so many significant digits; `writing` is the server's, which writes the same number in the same way.
function significant(value, digits, writing) {
  if (Number.isNaN(value)) return writing.nan;
  if (!Number.isFinite(value)) return (value > 0 ? "" : writing.minus) + writing.infinite;
  const rounded = Number.isInteger(value) && Math.abs(value) < writing.most ? value : roundedTo(value, digits);
  const plain = rounded === 0 || (Math.abs(rounded) >= writing.least && Math.abs(rounded) < writing.most);
  return signed(plain ? String(rounded) : rounded.toExponential(), writing);
}

// The browser rounds a tie away from 0, the server to the even digit.
function roundedTo(value, digits) {
  const [mantissa, exponent] = Math.abs(value).toExponential(60).split("e");
  const figures = mantissa.replace(".", "");
  const down = /^50*$/.test(figures.slice(digits)) && Number(figures[digits - 1]) % 2 === 0;
  return down ? Math.sign(value) * Number(`${figures.slice(0, digits)}e${exponent - digits + 1}`) : Number(value.toPrecision(digits));
}

function signed(text, writing) {
  return text.replace("e+", "e").replaceAll("-", writing.minus);
}

// ---- the bridge -------------------------------------------------------------------------------

class Bridge {
  constructor(chart) {
    this.chart = chart;
    this.remember(chart);
    this.stop = new AbortController();
    this.card = new Card();
    this.timers = {};
    this.style = document.head.appendChild(document.createElement("style"));
    this.observer = new MutationObserver(() => this.look());
    this.observer.observe(document.body, { childList: true, subtree: true });
    this.sizes = new ResizeObserver(() => this.measure());
    const options = { signal: this.stop.signal };
    window.addEventListener("pointerup", (event) => this.released(event), { ...options, capture: true });
    window.addEventListener("pointercancel", () => (this.press = null), options);
    window.addEventListener("scroll", () => this.leave(), { ...options, capture: true, passive: true });
    window.addEventListener("keydown", (event) => undoOrRedo(event), options);
  }

  // Charts that are read against each other share one memory: zoom and panel.
  remember(group) {
    if (!SPACE.memory.has(group)) SPACE.memory.set(group, { zoom: null, panel: null, asked: null });
    this.memory = SPACE.memory.get(group);
  }

  get companions() {
    return [...SPACE.bridges.values()].filter((bridge) => bridge !== this && bridge.memory === this.memory);
  }

  update({ data, parentElement, setTriggerValue, setStateValue }) {
    this.data = data;
    this.remember(data.group);
    this.host = parentElement;
    this.send = setTriggerValue;
    this.keep = setStateValue;
    // What was clicked here stands until the server has answered that click, not an earlier one.
    if (this.pending && same(this.pending, data.selected)) this.pending = null;
    this.style.textContent = this.rules();
    this.card.paint(data.colors);
    this.look();
    this.measure();
    this.draw();
    // It may have joined a group, or left one.
    if (this.gd) this.showSwitch();
  }

  close() {
    this.stop.abort();
    this.observer.disconnect();
    this.sizes.disconnect();
    Object.values(this.timers).forEach(clearTimeout);
    this.card.remove();
    this.style.remove();
    this.overlay?.remove();
    this.ghost?.remove();
    // The chart may live on and still call: it must not find its old bridge.
    this.gd = this.overlay = null;
    if (this.container) this.container.style.visibility = this.container.style.minHeight = "";
  }

  get selected() {
    return this.pending ?? this.data?.selected ?? null;
  }

  get cells() {
    const { stamp, open } = this.meta ?? {};
    // Chart and cells arrive one after the other: numbers of one are never shown over the other.
    const fitting = (cells) => cells.stamp === stamp && String(cells.open) === String(open);
    return [...(SPACE.cells.get(this.chart)?.values() ?? [])].findLast(fitting) ?? null;
  }

  get meta() {
    return this.gd?._fullLayout?.meta;
  }

  // The panel a phone shows: the one last chosen, else the one to begin with, else the last whose values are told.
  get panel() {
    const { panels, open } = this.meta;
    return [this.memory.panel, this.data.first].find((name) => open.includes(name)) ?? open.at(-1) ?? panels.at(-1);
  }

  // ---- finding the chart, and finding it again ----

  look() {
    const container = document.querySelector(`.st-key-${CSS.escape(this.chart)}`);
    if (container !== this.container) this.enter(container);
    const gd = container?.querySelector(".js-plotly-plot") ?? null;
    if (this.gd && gd !== this.gd) this.lose();
    // Drawn anew from scratch, the same chart has lost what was laid over it and who listened to it.
    const bare = gd && (gd !== this.gd || !this.overlay.isConnected);
    // To look elsewhere before plotly is done with the mouse leaves the chart deaf to it.
    if (bare && drawn(gd._fullLayout) && gd.querySelector(".main-svg .nsewdrag")) this.adopt(gd);
  }

  enter(container) {
    this.container = container;
    this.sizes.disconnect();
    if (!container) return;
    this.sizes.observe(container);
    const options = { signal: this.stop.signal };
    container.addEventListener("pointermove", (event) => this.moved(event), options);
    // A finger leaves as soon as it is lifted: what it asked for stays.
    container.addEventListener("pointerleave", (event) => event.pointerType !== "touch" && this.leave(), options);
    container.addEventListener("pointerdown", (event) => this.pressed(event), { ...options, capture: true });
    container.addEventListener("keydown", (event) => this.typed(event), options);
    container.addEventListener("click", (event) => this.clickedButton(event), { ...options, capture: true });
    container.addEventListener("wheel", (event) => this.wheeled(event), { ...options, passive: false });
    container.addEventListener("touchstart", (event) => this.touched(event), { ...options, capture: true, passive: false });
    container.addEventListener("touchmove", (event) => this.pinched(event), { ...options, capture: true, passive: false });
    for (const name of ["touchend", "touchcancel"]) container.addEventListener(name, () => (this.pinch = null), { ...options, capture: true });
    container.addEventListener("focusout", () => this.leave(), options);
  }

  // The old picture stays in sight until the new one is drawn: without it the page blinks at each change.
  lose() {
    const picture = this.gd.querySelector(".svg-container");
    this.gd = null;
    this.overlay = null;
    if (!picture || !this.container || !this.place) return;
    this.ghost?.remove();
    this.ghost = document.createElement("div");
    this.ghost.setAttribute("aria-hidden", "true");
    const { left, top, width, height } = this.place;
    Object.assign(this.ghost.style, { position: "absolute", pointerEvents: "none", left: `${left}px`, top: `${top}px`, width: `${width}px`, height: `${height}px`, overflow: "hidden" });
    this.ghost.append(picture);
    this.container.append(this.ghost);
    this.container.style.minHeight = `${this.container.clientHeight || height}px`;
    this.later("ghost", 2000, () => this.settle());
  }

  settle() {
    this.ghost?.remove();
    this.ghost = null;
    if (this.container) this.container.style.minHeight = "";
  }

  adopt(gd) {
    this.gd = gd;
    this.adopted = performance.now();
    this.restores = 0;
    gd.querySelectorAll(".qv-overlay").forEach((old) => old.remove());
    this.overlay = element("svg", { class: "qv-overlay", "aria-hidden": "true" });
    this.layers = Object.fromEntries(["values", "bands", "marks"].map((name) => [name, this.overlay.appendChild(element("g", {}))]));
    const heard = {
      plotly_afterplot: () => gd === this.gd && this.plotted(),
      plotly_relayout: () => gd === this.gd && this.zoomed(),
      plotly_relayouting: () => gd === this.gd && this.draw(),
      // Plotly takes one tap of a finger for two clicks: those are counted by `released`.
      plotly_doubleclick: () => gd === this.gd && !this.touching && this.showWhole(),
    };
    for (const [name, act] of Object.entries(heard)) {
      if (this.heard) gd.removeListener?.(name, this.heard[name]);
      gd.on(name, act);
    }
    this.heard = heard;
    this.container.dataset.qvArrangement = this.meta?.arrangement ?? "";
    this.style.textContent = this.rules();
    (gd.closest(".stPlotlyChart") ?? gd).tabIndex = 0;
    this.plotted();
  }

  plotted() {
    const svgs = this.gd.querySelector(".svg-container");
    if (svgs && this.overlay.parentNode !== svgs) svgs.append(this.overlay);
    const moving = this.restore();
    this.showSwitch();
    this.draw();
    if (!moving && this.gd.querySelector(".cartesianlayer image")) this.settle();
    const outer = this.container.getBoundingClientRect();
    const inner = this.gd.getBoundingClientRect();
    this.place = { left: inner.left - outer.left, top: inner.top - outer.top, width: inner.width, height: inner.height };
  }

  // ---- zoom ----

  // The part in sight: columns from x[0] to x[1], rows from y[1] to y[0], as the axes run.
  get sight() {
    const { xaxis, yaxis } = this.gd._fullLayout;
    return { x: [...xaxis.range], y: [...yaxis.range] };
  }

  zoomed() {
    if (this.restoring) return;
    this.intend(this.sight);
    this.draw();
    for (const bridge of this.companions) bridge.follow();
  }

  intend({ x, y }) {
    this.memory.zoom = { tensor: this.meta.tensor, x, y, window: windowOf({ x, y }, this.meta) };
    if (!this.data.windows || this.meta.whole) return;
    this.turning = true;
    this.later("window", QUIET, () => this.ask());
  }

  // The part that the server shows next, as far as is known.
  get expected() {
    const { asked } = this.memory;
    return asked && performance.now() - asked.at < PATIENCE ? asked.window : this.meta.window;
  }

  // Asks for the part in sight once the hands are still.
  ask() {
    if (this.press || this.pinch || !this.meta) return this.later("window", QUIET, () => this.ask());
    this.turning = false;
    const { window } = this.memory.zoom ?? this.meta;
    if (sameWindow(window, this.expected)) return;
    this.memory.asked = { window, at: performance.now() };
    this.send("window", window);
  }

  // For the mini-map: what is in sight, and to look elsewhere.
  get inSight() {
    return drawn(this.gd?._fullLayout) ? windowOf(this.sight, this.meta) : null;
  }

  lookAt(window) {
    if (this.meta) this.aim(rangesOf(window));
  }

  showWhole() {
    if (this.meta) this.lookAt({ top: 0, left: 0, rows: this.meta.rows, cols: this.meta.cols });
  }

  // Looks at a part, once a frame, however often it is told to.
  aim(sight) {
    this.leave();
    if (!this.aimed) {
      requestAnimationFrame(() => {
        const { x, y } = this.aimed;
        this.aimed = null;
        if (!this.meta || typeof window.Plotly?.relayout !== "function") return;
        // Told before it is done: a chart just drawn would be turned back.
        this.intend({ x, y });
        window.Plotly.relayout(this.gd, { "xaxis.range": x, "yaxis.range": y });
      });
    }
    this.aimed = sight;
  }

  // Moves and zooms from a sight: the place that was at `from` (in cells) is then at `share` (0 to 1) of the panel.
  aimFrom({ x, y }, factor, from, share) {
    const { rows, cols } = this.meta;
    const [top, bottom] = turned([y[1], y[0]], factor, from.row, share.down, rows);
    this.aim({ x: turned(x, factor, from.col, share.across, cols), y: [bottom, top] });
  }

  wheeled(event) {
    const panel = this.panelUnder(event.clientX, event.clientY);
    // Between two charts there is nothing to turn, but the page is not to move either.
    if (!this.gd && this.ghost) event.preventDefault();
    if (!panel || event.target.closest?.(".modebar") || !(event.ctrlKey || this.meta.large)) return;
    const unit = [1, 16, 100][event.deltaMode];
    const [dx, dy] = [event.deltaX * unit, event.deltaY * unit];
    const sight = this.aimed ?? this.sight;
    const aside = !event.ctrlKey && (event.shiftKey || Math.abs(dx) > Math.abs(dy));
    const { share } = panel;
    const from = placeIn(sight, share);
    // A notch of a wheel is 100, a trackpad's pinch tells a few at a time.
    const factor = aside ? 1 : Math.exp(clamp(dy * (event.ctrlKey ? 0.01 : 0.002), -0.7, 0.7));
    const { rows, cols } = this.meta;
    const all = !aside && factor > 1 && sight.x[1] - sight.x[0] >= cols - 1e-6 && sight.y[0] - sight.y[1] >= rows - 1e-6;
    // Whoever scrolls on where all is in sight wants the page to scroll; the last turns of a zoom do not.
    if (all && !event.ctrlKey && performance.now() - (this.turnedAt ?? -Infinity) > 400) return;
    event.preventDefault();
    if (all) return;
    this.turnedAt = performance.now();
    this.aimFrom(sight, factor, from, aside ? { ...share, across: share.across - (dx || dy) / panel.panel.width } : share);
  }

  touched(event) {
    this.pinch = null;
    if (event.touches.length !== 2) return;
    const { middle, apart } = fingers(event.touches);
    const panel = this.panelUnder(...middle);
    if (!panel) return;
    event.preventDefault();
    event.stopPropagation();
    this.press = null;
    this.pinch = { name: panel.panel.name, sight: this.sight, apart, from: placeIn(this.sight, panel.share) };
  }

  pinched(event) {
    if (event.touches.length !== 2 || !this.pinch || !this.gd) return;
    event.preventDefault();
    event.stopPropagation();
    const { middle, apart } = fingers(event.touches);
    const panel = this.panels().find(({ name }) => name === this.pinch.name);
    const { px, py } = this.pixelUnder(...middle);
    if (panel) this.aimFrom(this.pinch.sight, this.pinch.apart / Math.max(apart, 1), this.pinch.from, sharesOf(panel, px, py));
  }

  // ---- pictures ----

  // Saves what is in sight with its printed values and marks, or a `figure` of the same kind; as "png" or "svg".
  async save(format, figure = null) {
    if (!drawn(this.gd?._fullLayout) || typeof window.Plotly?.downloadImage !== "function") return;
    const { data, layout } = this.titled(figure ?? this.inView());
    const { width, height } = layout;
    await window.Plotly.downloadImage({ data, layout, config: { staticPlot: true } }, { format, width, height, scale: format === "png" ? 2 : 1, filename: this.data.picture?.name ?? "quantviz" });
  }

  // The chart as it is looked at, with what lies over it. On a phone one panel is.
  inView() {
    const { data, layout } = this.gd;
    const panels = this.panels();
    const { x, y } = this.sight;
    const seen = panels.map(({ name }) => this.meta.panels.indexOf(name));
    const mine = (owners) => (_, i) => owners[i] === undefined || owners[i] < 0 || seen.includes(owners[i]);
    const looked = { ...layout, annotations: layout.annotations.filter(mine(this.meta.annotations)), shapes: layout.shapes.filter(mine(this.meta.shapes)) };
    for (const i of this.meta.panels.keys()) {
      const n = i ? i + 1 : "";
      looked[`xaxis${n}`] = { ...layout[`xaxis${n}`], range: x };
      looked[`yaxis${n}`] = { ...layout[`yaxis${n}`], range: y };
    }
    const texts = this.prints(panels).map((print) => this.textTrace(print));
    looked.shapes = [...looked.shapes, ...this.markShapes(panels)];
    return { data: [...data.filter(({ name }) => panels.some((panel) => panel.name === name)), ...texts], layout: looked };
  }

  axesOf(name) {
    const i = this.meta.panels.indexOf(name);
    return [`x${i ? i + 1 : ""}`, `y${i ? i + 1 : ""}`];
  }

  textTrace({ panel, scale, size, labels }) {
    const [xaxis, yaxis] = this.axesOf(panel.name);
    const color = labels.map(({ value }) => inkOn(scale, value));
    const told = { x: labels.map(({ col }) => col), y: labels.map(({ row }) => row), text: labels.map(({ label }) => label) };
    return { type: "scatter", mode: "text", xaxis, yaxis, ...told, textfont: { size: size * Math.min(1, CHARACTER / digitWidth()), color }, showlegend: false };
  }

  markShapes(panels) {
    if (!this.selected) return [];
    const [row, col] = this.selected;
    const place = { type: "rect", x0: col - 0.5, x1: col + 0.5, y0: row - 0.5, y1: row + 0.5 };
    const lines = [{ color: this.data.colors.halo, width: 4 }, { color: this.data.colors.mark, width: 2 }];
    return panels.filter(({ name }) => this.meta.open.includes(name)).flatMap(({ name }) => {
      const [xref, yref] = this.axesOf(name);
      return lines.map((line) => ({ ...place, xref, yref, line }));
    });
  }

  // On a page of its own, under two lines that say what it is of.
  titled({ data, layout }) {
    const { colors, picture } = this.data;
    const page = { paper_bgcolor: colors.surface, plot_bgcolor: colors.surface };
    const lines = [[picture?.title, 14, 27], [picture?.subtitle, 12, 8]].filter(([words]) => words);
    // Plotly reads tags in what it writes, and a name may hold one.
    const safe = (words) => words.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
    const annotations = lines.map(([words, size, yshift]) => ({
      text: size === 14 ? `<b>${safe(words)}</b>` : safe(words),
      xref: "paper", yref: "paper", x: 0, y: 1, xanchor: "left", yanchor: "bottom", yshift, showarrow: false, borderpad: 0,
      font: { size: Math.max(7, Math.min(size, layout.width / (digitWidth() * widthOf(words)))), color: colors.text },
    }));
    // A saved picture has no fonts of the page: laid out for what there is then, nothing moves.
    const font = { ...layout.font, family: PLAIN };
    const above = lines.length ? 52 : 8;
    const margin = { ...layout.margin, l: 8, r: 8, t: above, b: layout.margin.b + 8 };
    return {
      data,
      layout: { ...layout, ...page, font, margin, width: layout.width + 16, height: layout.height + above + 8, annotations: [...layout.annotations, ...annotations] },
    };
  }

  clickedButton(event) {
    // The first button of plotly's bar is its camera, which knows nothing of what lies over the chart.
    const button = event.target.closest?.(".modebar-btn");
    if (button && button === this.gd?.querySelector(".modebar-btn") && !button.dataset.attr) {
      event.stopPropagation();
      return this.save("png");
    }
    // Plotly's way home is the part that the figure came with.
    if (!event.target.closest?.(".modebar-btn[data-attr=zoom][data-val=reset]")) return;
    event.stopPropagation();
    this.showWhole();
  }

  // Looks where the companion that was zoomed looks.
  follow() {
    if (!this.gd || typeof window.Plotly?.relayout !== "function") return;
    const { x, y } = this.memory.zoom ?? rangesOf(this.meta.window);
    this.relayout(x, y);
  }

  relayout(x, y) {
    this.restoring = true;
    Promise.resolve(window.Plotly.relayout(this.gd, { "xaxis.range": [...x], "yaxis.range": [...y] }))
      .catch(() => {})
      .finally(() => (this.restoring = false));
  }

  // Streamlit draws a new chart twice, so for a second the wanted part is looked at again. Tells whether the picture is to move.
  restore() {
    const { zoom, asked } = this.memory;
    if (asked && sameWindow(asked.window, this.meta.window)) this.memory.asked = null;
    if (!zoom || performance.now() - this.adopted > 1200 || this.restores >= 5) return false;
    // A figure of another part than the one last looked at: that one is still to come, or somebody has moved on.
    const local = this.meta.whole || !this.data.windows;
    if (zoom.tensor !== this.meta.tensor || !(local || this.turning || sameWindow(zoom.window, this.expected))) {
      this.memory.zoom = null;
      return false;
    }
    const { x, y } = this.sight;
    if ((close(x, zoom.x) && close(y, zoom.y)) || typeof window.Plotly?.relayout !== "function") return false;
    this.restores += 1;
    this.relayout(zoom.x, zoom.y);
    return true;
  }

  // ---- width ----

  measure() {
    const width = this.container?.clientWidth;
    if (!width || !this.data) return;
    this.container.dataset.qvMeasured = "";
    const name = (w) => Object.keys(this.data.breakpoints).find((each) => w >= this.data.breakpoints[each]);
    const wrong = name(width) !== name(this.data.width);
    // Laid out for another arrangement: better nothing for a moment than a picture that jumps.
    this.container.style.visibility = wrong && !this.gaveUp ? "hidden" : "";
    if (wrong) this.later("hidden", 3000, () => ((this.gaveUp = true), (this.container.style.visibility = "")));
    if (!wrong && Math.abs(width - this.data.width) <= 0.03 * this.data.width) return;
    if (width === this.told) return;
    this.later("width", this.told ? 250 : 0, () => this.keep("width", (this.told = width)));
  }

  // ---- drawing over the chart ----

  // The panels in sight, in pixels of the chart.
  panels() {
    const layout = this.gd?._fullLayout;
    if (!drawn(layout)) return [];
    const single = this.meta.arrangement === "single";
    return this.meta.panels.map((name, i) => {
      const x = layout[i ? `xaxis${i + 1}` : "xaxis"];
      const y = layout[i ? `yaxis${i + 1}` : "yaxis"];
      return { name, left: x._offset, top: y._offset, width: x._length, height: y._length, x: x.range, y: y.range };
    }).filter((panel) => !single || panel.name === this.panel);
  }

  draw() {
    if (!this.overlay || !this.gd) return;
    const panels = this.panels();
    this.drawValues(panels);
    this.drawBands(panels);
    this.drawMarks(panels);
    this.sharpen(panels);
    if (panels.length) SPACE.maps.get(this.chart)?.show(windowOf(this.sight, this.meta));
  }

  drawMarks(panels) {
    const { marks } = this.layers;
    marks.replaceChildren();
    if (!this.selected || !this.data) return;
    for (const panel of panels) {
      const [row, col] = this.selected;
      const box = cellBox(panel, { top: row, left: col, rows: 1, cols: 1 }, true);
      if (!box || !this.meta.open.includes(panel.name)) continue;
      const place = { x: box.left, y: box.top, width: box.width, height: box.height, fill: "none", rx: 1 };
      marks.append(element("rect", { ...place, stroke: this.data.colors.halo, "stroke-width": 4 }), element("rect", { ...place, class: "qv-mark", stroke: this.data.colors.mark, "stroke-width": 2 }));
    }
  }

  drawBands(panels) {
    const { bands } = this.layers;
    bands.replaceChildren();
    if (!this.hover || !this.data) return;
    const fill = { fill: this.data.colors.text, "fill-opacity": 0.13 };
    for (const panel of panels) {
      const box = cellBox(panel, this.hover);
      if (!box) continue;
      bands.append(
        element("rect", { x: panel.left, y: box.top, width: panel.width, height: box.height, ...fill }),
        element("rect", { x: box.left, y: panel.top, width: box.width, height: panel.height, ...fill }),
        element("rect", { class: "qv-cross", x: box.left, y: box.top, width: box.width, height: box.height, fill: "none", stroke: this.data.colors.mark, "stroke-width": 1 }),
      );
    }
  }

  // Values, as our own text elements: plotly's `texttemplate` takes longer than the rest of the drawing together.
  drawValues(panels) {
    const { values } = this.layers;
    values.replaceChildren();
    if (!panels.length) return;
    values.append(...this.prints(panels).map((print) => this.valueGroup(print)));
  }

  // What is printed into the cells of each panel that has room for it.
  prints(panels) {
    const { cells } = this;
    if (!cells) return [];
    // x and x̂ are read against each other: both or neither.
    return [["x", "x_hat"], ["q"], ["error"]].flatMap((names) => {
      const prints = panels.filter((panel) => names.includes(panel.name) && cells.open.includes(panel.name)).map((panel) => printed(panel, cells, this.meta.enlarged));
      return prints.every(Boolean) ? prints : [];
    });
  }

  valueGroup({ panel, scale, size, labels }) {
    const group = element("g", { "font-size": size.toFixed(1), "text-anchor": "middle", "font-family": this.data.colors.font });
    for (const { x, y, value, label } of labels) {
      const text = element("text", { x: x.toFixed(1), y: (y + size * 0.35).toFixed(1), fill: inkOn(scale, value) });
      text.textContent = label;
      group.append(text);
    }
    group.dataset.panel = panel.name;
    return group;
  }

  // An image shrunk below its own pixels is averaged, so that no row is lost; larger it keeps its edges.
  sharpen(panels) {
    const images = this.gd.querySelectorAll(".cartesianlayer .im image");
    if (!images.length || !panels.length) return;
    const [panel] = panels;
    const { shape, window } = this.meta;
    const across = ((panel.width / (panel.x[1] - panel.x[0])) * window.cols) / shape[1];
    const down = ((panel.height / (panel.y[0] - panel.y[1])) * window.rows) / shape[0];
    for (const image of images) image.style.imageRendering = Math.min(across, down) < 1 ? "auto" : "pixelated";
  }

  // ---- pointer ----

  // A point of the window in pixels of the chart; none where there is none.
  pixelUnder(clientX, clientY) {
    const layout = this.gd?._fullLayout;
    const frame = this.gd?.querySelector(".svg-container")?.getBoundingClientRect();
    if (!layout || !frame?.width) return {};
    return { px: ((clientX - frame.left) * layout.width) / frame.width, py: ((clientY - frame.top) * layout.height) / frame.height };
  }

  // The panel under a point of the window, and where in it, as shares from 0 to 1.
  panelUnder(clientX, clientY) {
    const { px, py } = this.pixelUnder(clientX, clientY);
    for (const panel of this.panels()) {
      const share = sharesOf(panel, px, py);
      if (within(share)) return { panel, share };
    }
    return null;
  }

  // What is shown under a point of the window: the panel, the cell, and the pixel it lies in.
  cellUnder(clientX, clientY) {
    const found = this.panelUnder(clientX, clientY);
    const { cells } = this;
    if (!found || !cells) return null;
    const { row, col } = placeIn(this.sight, found.share);
    const cell = [clamp(Math.round(row), 0, this.meta.rows - 1), clamp(Math.round(col), 0, this.meta.cols - 1)];
    const pixel = pixelAt(cells, ...cell);
    return pixel && { panel: found.panel.name, pixel, cell: cellShown(cells, pixel, found.panel.name) ?? cell };
  }

  moved(event) {
    if (event.pointerType === "touch") return;
    if (event.buttons || event.target.closest?.(".modebar")) return this.leave();
    const { clientX, clientY } = event;
    // One drawing a frame, however often the mouse reports.
    if (this.frame) cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.point(clientX, clientY));
  }

  point(clientX, clientY) {
    this.frame = null;
    const found = this.cellUnder(clientX, clientY);
    if (!found) return this.leave();
    if (found.pixel.at !== this.hover?.at) {
      this.hover = found.pixel;
      this.drawBands(this.panels());
    }
    this.tell(found.pixel, found.panel, clientX, clientY);
  }

  leave() {
    if (this.frame) cancelAnimationFrame(this.frame);
    this.frame = null;
    if (!this.hover) return;
    this.hover = null;
    this.card.hide();
    if (this.overlay) this.drawBands(this.panels());
  }

  pressed(event) {
    // From the first touch on, the window in sight is the person's.
    this.adopted = -Infinity;
    this.touching = event.pointerType === "touch";
    if (event.button || !event.isPrimary || event.target.closest?.(".modebar")) return;
    const under = this.gd && this.panelUnder(event.clientX, event.clientY);
    this.press = { x: event.clientX, y: event.clientY, at: performance.now(), touch: event.pointerType === "touch", under, sight: under && this.sight };
    if (!this.press.touch) this.leave();
  }

  released(event) {
    const { press } = this;
    this.press = null;
    if (!press || !event.isPrimary) return;
    const far = Math.hypot(event.clientX - press.x, event.clientY - press.y);
    // A drag is a zoom, a long press is the phone's own.
    if (far > (press.touch ? 10 : 4)) return this.boxed(press, event);
    if (performance.now() - press.at > 900) return;
    const found = this.cellUnder(press.x, press.y);
    if (!found) return;
    this.select(found.cell, 0);
    // Arrow keys go on from the cell that was clicked.
    if (!press.touch) (this.gd.closest(".stPlotlyChart") ?? this.gd).focus({ preventScroll: true });
    if (press.touch) {
      const again = performance.now() - (this.tapped ?? -Infinity) < 350;
      this.tapped = performance.now();
      if (again) return this.showWhole();
      this.hover = found.pixel;
      this.drawBands(this.panels());
      this.tell(found.pixel, found.panel, press.x, press.y, true);
      this.later("touch", 3500, () => this.leave());
    }
  }

  // Plotly takes a low or narrow box for a zoom along one axis alone. A wide matrix is a low picture: what was drawn is meant.
  boxed(press, event) {
    const [wide, high] = [Math.abs(event.clientX - press.x), Math.abs(event.clientY - press.y)];
    if (press.touch || event.shiftKey || !press.under || !this.gd) return;
    if (Math.min(wide, high) < 4 || Math.max(wide, high) < 8 || Math.min(wide, high) >= 20) return;
    const { px, py } = this.pixelUnder(event.clientX, event.clientY);
    const { across, down } = sharesOf(press.under.panel, px, py);
    const ends = [press.under.share, { across: clamp(across, 0, 1), down: clamp(down, 0, 1) }].map((share) => placeIn(press.sight, share));
    const [cols, rows] = [ends.map(({ col }) => col), ends.map(({ row }) => row)];
    // After Plotly has done what it makes of it.
    setTimeout(() => this.gd && this.aim({ x: [Math.min(...cols), Math.max(...cols)], y: [Math.max(...rows), Math.min(...rows)] }), 0);
  }

  select(cell, wait) {
    this.pending = cell;
    this.draw();
    this.later("send", wait, () => this.send("cell", { row: cell[0], col: cell[1] }));
    // An answer that never comes must not pin the mark.
    this.later("pending", wait + 4000, () => {
      this.pending = null;
      this.draw();
    });
  }

  // ---- keyboard ----

  typed(event) {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    const { cells } = this;
    if (!step || !cells || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const here = this.selected && pixelAt(cells, ...this.selected);
    const [i, j] = here ? [clamp(here.i + step[0], 0, cells.rows - 1), clamp(here.j + step[1], 0, cells.cols - 1)] : [0, 0];
    const pixel = pixelAt(cells, cells.row_edges[i], cells.col_edges[j]);
    this.select(cellShown(cells, pixel, "x") ?? [pixel.top, pixel.left], 250);
    const frame = this.gd.querySelector(".svg-container").getBoundingClientRect();
    const panel = this.panels().at(cells.how ? 0 : -1);
    const box = cellBox(panel, pixel);
    this.hover = pixel;
    this.drawBands(this.panels());
    if (box) this.tell(pixel, panel.name, frame.left + box.left + box.width, frame.top + box.top + box.height);
  }

  // ---- card and switch ----

  tell(pixel, panel, clientX, clientY, above = false) {
    const cells = this.cells;
    if (!cells || !this.data) return this.card.hide();
    const { labels } = this.data;
    const known = cellAt(cells, pixel);
    const cell = cellShown(cells, pixel, panel);
    const lines = [];
    let told = cells.open;
    let ofAnother = false;
    if (cells.how && pixel.rows * pixel.cols > 1) {
      const what = labels.pixel[cell && panel === "error" ? "largest_error" : cells.how];
      lines.push([what.replace("{rows}", span(pixel.top, pixel.rows)).replace("{cols}", span(pixel.left, pixel.cols)), null]);
      // Of the cell with the largest error the others have not been sent.
      ofAnother = Boolean(cell && panel === "error");
      if (ofAnother) told = ["error"];
      else if (cell && known.x_hat !== undefined && known.x !== undefined) known.error = errorOf(known.x_hat, known.x);
    }
    if (cell) lines.push([`${labels.row} ${cell[0]}, ${labels.col} ${cell[1]}`, null]);
    const first = lines.length;
    lines.push(...told.map((name) => [labels[name], name === "error" && !ofAnother && leftOut(known) ? cells.writing.none : significant(known[name], cells.writing.card, cells.writing)]));
    if (known.code !== undefined && told.includes("q")) lines.splice(first + 1 + told.indexOf("q"), 0, [labels.code, bitsOf(known.code, cells.code_bits)]);
    if (known.scale !== undefined) {
      lines.push([labels.block, blockPlace(known.block, cells.grid) || labels.whole_tensor], [labels.scale, significant(known.scale, cells.writing.card, cells.writing)]);
    }
    if (known.cause !== undefined) lines.push([labels.cause, labels.causes[known.cause]]);
    this.card.show(lines, clientX, clientY, above);
  }

  showSwitch() {
    const single = this.meta?.arrangement === "single";
    // One switch for a group: the first chart's.
    const leads = single && this.data.group === this.chart;
    tuckAway(this.host, !leads);
    if (this.container) this.container.dataset.qvPanel = single ? this.panel : "";
    const build = leads ? JSON.stringify([this.meta.panels, this.data.labels, this.data.colors]) : "";
    if (this.built === build && this.bar?.isConnected === leads) return this.showPressed();
    this.built = build;
    this.bar?.remove();
    this.bar = null;
    if (!leads) return;
    const { labels, colors } = this.data;
    this.bar = document.createElement("div");
    this.bar.setAttribute("role", "group");
    this.bar.setAttribute("aria-label", labels.switch);
    Object.assign(this.bar.style, { display: "flex", border: `1px solid ${colors.line}`, borderRadius: "8px", overflow: "hidden", font: `14px ${colors.font}` });
    for (const name of this.meta.panels) {
      const button = this.bar.appendChild(document.createElement("button"));
      button.type = "button";
      button.value = name;
      button.textContent = labels.tabs[name];
      Object.assign(button.style, { flex: "1", minHeight: "44px", border: "0", font: "inherit", cursor: "pointer" });
      button.addEventListener("click", () => {
        this.memory.panel = name;
        for (const bridge of [this, ...this.companions]) bridge.turned();
      });
    }
    this.host.append(this.bar);
    this.showPressed();
  }

  turned() {
    if (!this.gd || !this.container) return;
    this.container.dataset.qvPanel = this.panel;
    this.showPressed();
    this.draw();
  }

  showPressed() {
    const { colors } = this.data;
    for (const button of this.bar?.children ?? []) {
      const on = button.value === this.panel;
      button.setAttribute("aria-pressed", String(on));
      button.disabled = !this.meta.open.includes(button.value);
      button.style.opacity = button.disabled ? "0.55" : "";
      Object.assign(button.style, { background: on ? colors.text : "transparent", color: on ? colors.surface : colors.text, fontWeight: on ? "600" : "400" });
    }
  }

  rules() {
    const here = `.st-key-${CSS.escape(this.chart)}`;
    const rules = [
      `${here} { position: relative; }`,
      // The picture stays as it is while the server works; Streamlit would fade it.
      `${here} [data-stale=true], ${here}[data-stale=true] { opacity: 1 !important; transition: none !important; }`,
      `${here} .qv-overlay { position: absolute; inset: 0; width: 100%; height: 100%; pointer-events: none; overflow: hidden; }`,
      `${here} .stPlotlyChart:focus-visible { outline: 2px solid ${this.data.colors.mark}; outline-offset: 2px; }`,
      `${here}[data-qv-arrangement=single] .nsewdrag { cursor: pointer; touch-action: pan-y; }`,
      // A finger scrolls the page, and has no use for a bar that lies over the titles.
      `@media (pointer: coarse) { ${here} .nsewdrag { touch-action: pan-y; } ${here} .modebar { display: none !important; } }`,
    ];
    const { panels = [], shapes = [], annotations = [] } = this.meta ?? {};
    panels.forEach((name, i) => {
      const n = i ? i + 1 : "";
      const others = `${here}[data-qv-arrangement=single]:not([data-qv-panel=${name}])`;
      const parts = [`.subplot.x${n}y${n}`, `.draglayer > .x${n}y${n}`, `.cbcoloraxis${n}`];
      annotations.forEach((owner, index) => owner === i && parts.push(`.annotation[data-index="${index}"]`));
      shapes.forEach((owner, index) => owner === i && parts.push(`.shapelayer [data-index="${index}"]`));
      rules.push(`${parts.map((part) => `${others} ${part}`).join(", ")} { display: none !important; }`);
    });
    return rules.join("\n");
  }

  later(name, wait, act) {
    clearTimeout(this.timers[name]);
    this.timers[name] = setTimeout(act, wait);
  }
}

// ---- the hover card ---------------------------------------------------------------------------

class Card {
  constructor() {
    this.box = document.body.appendChild(document.createElement("div"));
    this.box.className = "qv-card";
    this.box.setAttribute("aria-hidden", "true");
    Object.assign(this.box.style, {
      position: "fixed", left: "0", top: "0", zIndex: "1000050", pointerEvents: "none", visibility: "hidden", display: "grid", gridTemplateColumns: "auto auto",
      gap: "1px 12px", padding: "7px 10px", borderRadius: "6px", fontSize: "13px", lineHeight: "1.35", fontVariantNumeric: "tabular-nums", maxWidth: "min(320px, 92vw)",
    });
  }

  paint({ surface, text, line, font }) {
    Object.assign(this.box.style, { background: surface, color: text, border: `1px solid ${line}`, fontFamily: font, boxShadow: "0 2px 10px rgba(0, 0, 0, 0.25)" });
  }

  show(lines, clientX, clientY, above) {
    const parts = lines.flatMap(([label, value]) => {
      const name = document.createElement("span");
      name.textContent = label;
      if (value === null) {
        Object.assign(name.style, { gridColumn: "1 / -1", fontWeight: "600" });
        return [name];
      }
      name.style.opacity = "0.75";
      const number = document.createElement("span");
      number.textContent = value;
      number.style.textAlign = "right";
      return [name, number];
    });
    this.box.replaceChildren(...parts);
    const { offsetWidth: width, offsetHeight: height } = this.box;
    // Beside the pointer; on its other side where the window ends.
    const left = clientX + 16 + width <= innerWidth - 4 ? clientX + 16 : clientX - 16 - width;
    const [higher, lower] = [clientY - 16 - height, clientY + 16];
    // Above a finger, which hides what is below it, and its cell, which a card as wide as a phone would.
    const top = above ? (higher >= 4 ? higher : clientY + 40) : lower + height <= innerHeight - 4 ? lower : higher;
    this.box.style.transform = `translate(${Math.round(clamp(left, 4, Math.max(4, innerWidth - 4 - width)))}px, ${Math.round(clamp(top, 4, Math.max(4, innerHeight - 4 - height)))}px)`;
    this.box.style.visibility = "visible";
  }

  hide() {
    this.box.style.visibility = "hidden";
  }

  remove() {
    this.box.remove();
  }
}

// Where a text is typed; a list that is closed only shows what was chosen.
const TYPING = "input:not([type=radio], [type=checkbox], [type=range], [role=combobox][aria-expanded=false]), textarea, [contenteditable=true]";

// Ctrl+Z and Ctrl+Shift+Z (on a Mac with ⌘) press the page's buttons; in a text they are the text's own. Every chart of a
// page hears them: the first that does prevents the others.
function undoOrRedo(event) {
  if (event.key.toLowerCase() !== "z" || !(event.ctrlKey || event.metaKey) || event.altKey || event.defaultPrevented) return;
  if (event.target.closest?.(TYPING)) return;
  const button = document.querySelector(`.st-key-${event.shiftKey ? "redo" : "undo"} button`);
  if (!button) return;
  event.preventDefault();
  button.click();
}

// A chart with all its axes drawn.
function drawn(layout) {
  const count = layout?.meta?.panels?.length;
  return Boolean(count && layout[count > 1 ? `xaxis${count}` : "xaxis"]?._length);
}

// ---- small things -----------------------------------------------------------------------------

// Out of the flow where there is nothing in it: Streamlit would leave a gap.
function tuckAway(parent, away) {
  const outer = (parent instanceof ShadowRoot ? parent.host : parent)?.closest("[data-testid=stElementContainer]");
  if (outer) Object.assign(outer.style, away ? { position: "absolute", height: "0", overflow: "hidden" } : { position: "", height: "", overflow: "" });
}

function element(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

// The first place to the last of so many: "3" or "3–7".
function span(first, count) {
  return count === 1 ? String(first) : `${first}–${first + count - 1}`;
}

// ---- parts of a matrix ------------------------------------------------------------------------

// As the axes run: rows downwards.
function rangesOf({ top, left, rows, cols }) {
  return { x: [left - 0.5, left + cols - 0.5], y: [top + rows - 0.5, top - 0.5] };
}

// The cells of a matrix that are in sight, wholly or in part.
function windowOf({ x, y }, { rows, cols }) {
  const [left, right] = inSight(x, 0, cols);
  const [top, bottom] = inSight([y[1], y[0]], 0, rows);
  return { top, left, rows: bottom - top + 1, cols: right - left + 1 };
}

function sameWindow(a, b) {
  return ["top", "left", "rows", "cols"].every((name) => a[name] === b[name]);
}

// A range zoomed so that what was at `from` is then at `share` of it: at least one cell long, and inside the matrix.
function turned([low, high], factor, from, share, count) {
  const length = clamp((high - low) * factor, Math.min(1, count), count);
  const start = clamp(from - share * length, -0.5, count - 0.5 - length);
  return [start, start + length];
}

function placeIn({ x, y }, { across, down }) {
  return { col: x[0] + across * (x[1] - x[0]), row: y[1] + down * (y[0] - y[1]) };
}

function sharesOf(panel, px, py) {
  return { across: (px - panel.left) / panel.width, down: (py - panel.top) / panel.height };
}

function within({ across, down }) {
  return across >= 0 && across <= 1 && down >= 0 && down <= 1;
}

function fingers([a, b]) {
  return { middle: [(a.clientX + b.clientX) / 2, (a.clientY + b.clientY) / 2], apart: Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY) };
}

// The rectangle of some rows and columns in a panel, cut at the panel's edges; none where it is out of sight.
function cellBox(panel, cells, visibly = false) {
  const width = panel.width / (panel.x[1] - panel.x[0]);
  const height = panel.height / (panel.y[0] - panel.y[1]);
  let left = panel.left + (cells.left - 0.5 - panel.x[0]) * width;
  let top = panel.top + (cells.top - 0.5 - panel.y[1]) * height;
  let right = left + cells.cols * width;
  let bottom = top + cells.rows * height;
  if (right <= panel.left || bottom <= panel.top || left >= panel.left + panel.width || top >= panel.top + panel.height) return null;
  // A mark smaller than this would not be found again.
  const grow = (from, to, least) => (to - from < least ? [(from + to - least) / 2, (from + to + least) / 2] : [from, to]);
  if (visibly) [left, right] = grow(left, right, 6);
  if (visibly) [top, bottom] = grow(top, bottom, 6);
  left = Math.max(left, panel.left);
  top = Math.max(top, panel.top);
  right = Math.min(right, panel.left + panel.width);
  bottom = Math.min(bottom, panel.top + panel.height);
  return { left, top, width: right - left, height: bottom - top };
}

// The first and last index in sight of an axis range.
function inSight([from, to], first, count) {
  const last = first + count - 1;
  const start = clamp(Math.floor(from + 0.5 + 1e-6), first, last);
  return [start, clamp(Math.ceil(to - 0.5 - 1e-6), start, last)];
}

// What is printed into a panel's cells: to as many significant digits as a cell is wide enough for, of those that the
// server allows; nothing where one of them does not fit, or where there are too many to read.
function printed(panel, cells, enlarged) {
  if (cells.how) return null;
  const { writing } = cells;
  const [left, right] = inSight(panel.x, cells.left, cells.cols);
  const [top, bottom] = inSight([panel.y[1], panel.y[0]], cells.top, cells.rows);
  if ((right - left + 1) * (bottom - top + 1) > MOST_PRINTED) return null;
  const width = panel.width / (panel.x[1] - panel.x[0]);
  const height = panel.height / (panel.y[0] - panel.y[1]);
  const room = Math.floor((width - 3) / (CHARACTER * SMALLEST_PRINT));
  if (height * 0.62 < SMALLEST_PRINT) return null;
  const scale = cells.scales[panel.name];
  const reach = Math.max(Math.abs(scale.lo), Math.abs(scale.hi));
  const labels = [];
  for (let row = top; row <= bottom; row++) {
    for (let col = left; col <= right; col++) {
      const x = panel.left + (col - panel.x[0]) * width;
      const y = panel.top + (row - panel.y[1]) * height;
      // A cell cut by the edge is left empty.
      if (x - panel.left < width * 0.4 || panel.left + panel.width - x < width * 0.4) continue;
      if (y - panel.top < height * 0.4 || panel.top + panel.height - y < height * 0.4) continue;
      const cell = cellAt(cells, pixelAt(cells, row, col));
      const value = panel.name === "error" ? shownError(cell, cells.error_view) : cell[panel.name];
      // An error relative to 0, or of what is left out, is not a number that went wrong: there is none.
      const none = panel.name === "error" && Number.isNaN(value) && (!Number.isNaN(cell.error) || leftOut(cell));
      // The card tells the digits of such an error.
      const rounded = panel.name === "error" && cell.x !== undefined && Math.abs(cell.error) <= cells.rounding * Math.abs(cell.x);
      const digits = writing[panel.name !== "q" ? "value" : cells.code ? "decoded" : "code"];
      const label = none ? writing.none : rounded ? "0" : shortenings(value, digits, writing).find((text) => text.length <= room);
      // What is too long to print and too small to see, such as the last bit of a float, must not empty the panel.
      if (label === undefined && !(Math.abs(value) < 1e-3 * reach)) return null;
      labels.push({ x, y, row, col, value, label: label ?? "~0" });
    }
  }
  const longest = Math.max(1, ...labels.map(({ label }) => label.length));
  const size = Math.min(12 * enlarged, (width - 3) / (CHARACTER * longest), height * 0.62);
  return { panel, scale, size, labels };
}

// A number shorter and shorter: fewer digits, then without the 0 before its point, then by its power of ten.
function shortenings(value, digits, writing) {
  const texts = digits.map((count) => significant(value, count, writing));
  if (!Number.isFinite(value) || digits.at(-1) > 2) return texts;
  return [...texts, ...texts.map((text) => text.replace(/^(\D?)0\./, "$1.")), signed(value.toExponential(0), writing)];
}

// Black or white, whichever is read better on a place of the colour scale.
function inkOn({ ramp, stops, lo, hi }, value) {
  const at = clamp(Number.isFinite(value) ? (value - lo) / (hi - lo) : 0.5, 0, 1);
  const low = clamp(stops.findIndex((stop) => stop > at) - 1, 0, ramp.length - 2);
  const share = at === 1 ? 1 : (at - stops[low]) / (stops[low + 1] - stops[low]);
  const from = at === 1 ? ramp.length - 2 : low;
  const channel = (colour, i) => parseInt(colour.slice(1 + 2 * i, 3 + 2 * i), 16) / 255;
  const linear = [0, 1, 2].map((i) => (channel(ramp[from], i) + share * (channel(ramp[from + 1], i) - channel(ramp[from], i))) ** 2.2);
  const luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  return luminance > 0.19 ? "#101014" : "#ffffff";
}

// How wide a digit of a saved picture is, at size 1.
function digitWidth() {
  const canvas = document.createElement("canvas").getContext("2d");
  canvas.font = `100px ${PLAIN}`;
  return canvas.measureText("0").width / 100;
}

// How many characters wide a text is; Chinese ones are as wide as two.
function widthOf(words) {
  return [...words].reduce((sum, character) => sum + (character.codePointAt(0) > 0x2e7f ? 2 : 1), 0);
}

function clamp(value, lo, hi) {
  return Math.min(Math.max(value, lo), hi);
}

function same(a, b) {
  return Boolean(a && b) && a[0] === b[0] && a[1] === b[1];
}

function close(a, b) {
  return Math.abs(a[0] - b[0]) < 1e-6 && Math.abs(a[1] - b[1]) < 1e-6;
}
