// A slider over the values of a parameter, or a button for each of them. The server sends the sentence and the
// pictures of each value once; the knob shows them while it moves, and tells the server where it is let go.

import { emptied, paintDisc, paintLine } from "./page/canvas.js";
import { lasting } from "./page/component.js";
import { sliderRules } from "./page/slider.js";

// ---- layers of marks in one frame: what stands where is the server's, `quantviz/teaching/lessons/dials.py` ---

// CSS pixels free beside the frame: on its left and right, above and below.
const EDGES = [8, 8, 8, 8];
// The thinnest bar, in CSS pixels.
const THINNEST = 0.8;

const DRAWN = { line: drawLine, dots: drawDots, bars: drawBars, rows: drawBars, words: drawWords };

function paintMarks({ plot, now, context, width, height, colors }) {
  const axes = axesOf(plot, width, height);
  plot.marks.forEach((marks, at) => {
    const [xs, ys] = [plot[`x${at}`], plot[`y${at}`]];
    const count = marks.count;
    // Places that do not move are there once.
    const place = (values, k) => values[values.length > count ? now * count + k : k];
    const places = Array.from({ length: count }, (_, k) => [place(xs, k), place(ys, k)]);
    context.setLineDash(marks.dashed ? [4, 4] : []);
    const labels = marks.labels.length > count ? marks.labels.slice(now * count) : marks.labels;
    DRAWN[marks.draw](context, places, axes, { ...marks, labels }, colors);
  });
  context.setLineDash([]);
}

// From the frame's units to pixels: the axes' functions, and pixels to a unit.
function axesOf({ frame, equal, edges = EDGES }, width, height) {
  const [left, right, bottom, top] = frame;
  const [before, behind, above, below] = edges;
  let across = (width - before - behind) / (right - left);
  let up = (height - above - below) / (top - bottom);
  if (equal) across = up = Math.min(across, up);
  const [middle, centre] = [(left + right) / 2, (bottom + top) / 2];
  return {
    x: (value) => (before + width - behind) / 2 + (value - middle) * across,
    y: (value) => (above + height - below) / 2 - (value - centre) * up,
    across,
    up,
  };
}

function drawLine(context, places, { x, y }, { color, size }, colors) {
  let part = [];
  const end = () => {
    if (part.length > 1) paintLine(context, part, colors[color], size);
    part = [];
  };
  for (const [across, up] of places) {
    if (Number.isNaN(across) || Number.isNaN(up)) end();
    else part.push([x(across), y(up)]);
  }
  end();
}

function drawDots(context, places, { x, y }, { color, size, hollow }, colors) {
  for (const [across, up] of places) {
    if (Number.isNaN(across) || Number.isNaN(up)) continue;
    if (hollow) paintDisc(context, x(across), y(up), size, colors.surface, colors[color], 2);
    else paintDisc(context, x(across), y(up), size, colors[color]);
  }
}

// Bars of a thickness from their base up, or to the right.
function drawBars(context, places, { x, y, across, up }, { draw, color, size, base }, colors) {
  context.fillStyle = colors[color];
  for (const [value, length] of places) {
    const thick = Math.max(size * (draw === "bars" ? across : up), THINNEST);
    if (draw === "bars")
      context.fillRect(
        x(value) - thick / 2,
        Math.min(y(length), y(base)),
        thick,
        Math.abs(y(length) - y(base)),
      );
    else
      context.fillRect(
        Math.min(x(base), x(value)),
        y(length) - thick / 2,
        Math.abs(x(value) - x(base)),
        thick,
      );
  }
}

function drawWords(context, places, { x, y }, { color, labels, align, nudge: [right, down] }, colors) {
  context.fillStyle = colors[color];
  context.textAlign = align;
  context.textBaseline = "middle";
  const written = [];
  const size = parseFloat(context.font);
  places.forEach(([across, up], k) => {
    const at = { x: x(across) + right, y: y(up) + down, half: context.measureText(labels[k]).width / 2 };
    // One that would lie over another is left out.
    const isFree = written.every(
      (other) => Math.abs(other.y - at.y) >= 0.8 * size || Math.abs(other.x - at.x) >= other.half + at.half,
    );
    if (Number.isNaN(across) || !isFree) return;
    written.push(at);
    context.fillText(labels[k], at.x, at.y);
  });
  context.textBaseline = "alphabetic";
}

// The least height of a picture, and its place on a wall, where what does not fit would be out of sight.
const LEAST = 60;
const PICTURE_ON_WALL = ".st-key-lesson_picture";

class Dial {
  constructor(host) {
    this.root = host.appendChild(document.createElement("div"));
    this.root.className = "qv-dial";
    this.observer = new ResizeObserver(() => this.paint());
    const place = (this.root.getRootNode().host ?? host).closest(PICTURE_ON_WALL);
    if (place && getComputedStyle(place).overflowY === "auto") this.place = place;
    this.root.classList.toggle("qv-on-wall", Boolean(this.place));
    for (const each of [this.root, this.place]) if (each) this.observer.observe(each);
  }

  update(data, send) {
    // A hand that holds the slider keeps it.
    if (this.held && data.key === this.data.key) return;
    // The answer to a stop before the newest one, as where a key is pressed again, moves nothing back; that of
    // another session counts anew.
    const isLate = data.count >= this.heard && data.count < this.count;
    const isOld = isLate && String(data.stops) === String(this.data.stops);
    Object.assign(this, { send, heard: data.count, count: isOld ? this.count : data.count });
    if (JSON.stringify(data) !== JSON.stringify(this.data)) this.build(data);
    this.go(isOld ? this.now : data.now);
  }

  close() {
    this.observer.disconnect();
    this.root.remove();
  }

  build(data) {
    const focused = this.input && this.input === this.root.getRootNode().activeElement;
    this.data = data;
    const figures = Object.entries(data.plots).map(
      ([at, plot]) =>
        `<figure><canvas data-plot="${at}" role="img" style="height:${plot.height}px"></canvas><figcaption>${legend(plot, data.colors, at)}` +
        `</figcaption></figure>`,
    );
    this.root.innerHTML = `<style>${rules(data.colors)}</style><p aria-live="polite"></p>
      <label><span>${data.title}</span><b></b></label>
      <div class="qv-track"><span class="qv-fill"></span><input type="range" min="0" step="1"
        max="${data.stops.length - 1}" aria-label="${data.title}"><span class="qv-thumb"
        aria-hidden="true"></span></div>${buttons(data)}<div class="qv-dial-plots">${figures.join("")}</div>`;
    for (const canvas of this.root.querySelectorAll("canvas"))
      canvas.setAttribute("aria-label", data.plots[canvas.dataset.plot].alt);
    if (data.stops.length < 2 || data.presses)
      for (const part of this.root.querySelectorAll("label, .qv-track")) part.hidden = true;
    this.input = this.root.querySelector("input");
    this.input.addEventListener("input", () => {
      this.held = true;
      this.go(Number(this.input.value));
    });
    // One that came back to where it began says nothing.
    for (const end of ["change", "pointerup", "pointercancel"])
      this.input.addEventListener(end, () => (this.held = false));
    this.input.addEventListener("change", () => this.tell());
    for (const button of this.root.querySelectorAll("button"))
      button.addEventListener("click", () => {
        if (Number(button.value) === this.now) return;
        this.go(Number(button.value));
        this.tell();
      });
    if (focused) this.input.focus();
  }

  tell() {
    this.send("stop", { stop: this.now, count: (this.count += 1) });
  }

  go(now) {
    this.now = now;
    this.input.value = now;
    this.paint();
  }

  // Give the pictures the height that the wall has left for them.
  fit() {
    const canvases = [...this.root.querySelectorAll("canvas")];
    const rows = new Set(canvases.map((canvas) => canvas.offsetTop)).size;
    const heights = canvases.map((canvas) => this.data.plots[canvas.dataset.plot].height);
    const show = (over) =>
      canvases.forEach((canvas, at) => {
        canvas.style.height = `${Math.max(heights[at] - over, LEAST)}px`;
      });
    show(0);
    const over = this.place.scrollHeight - this.place.clientHeight;
    if (over > 0) show(Math.ceil(over / rows));
  }

  paint() {
    const { data, now } = this;
    if (!this.root.clientWidth || !data) return;
    if (this.place) this.fit();
    this.root.querySelector(".qv-track").style.setProperty("--at", now / (data.stops.length - 1) || 0);
    this.root.querySelector("p").textContent = data.words[now];
    this.root.querySelector("label b").textContent = data.stops[now];
    for (const caption of this.root.querySelectorAll("[data-caption]")) {
      const { captions } = data.plots[caption.dataset.caption];
      if (captions) caption.textContent = captions[now];
    }
    for (const button of this.root.querySelectorAll("button"))
      button.setAttribute("aria-pressed", Number(button.value) === now);
    this.input.setAttribute("aria-valuetext", `${data.stops[now]}. ${data.words[now]}`);
    for (const canvas of this.root.querySelectorAll("canvas")) {
      const [width, height] = [canvas.clientWidth, canvas.clientHeight];
      const context = emptied(canvas, width, height);
      const plot = data.plots[canvas.dataset.plot];
      context.font = `${12 * plot.larger}px ${data.colors.font}`;
      paintMarks({ plot, now, context, width, height, colors: data.colors });
    }
  }
}

// A button for each value, where values are pressed.
function buttons({ presses, stops }) {
  const each = stops.map((stop, at) => stop && `<button type="button" value="${at}">${stop}</button>`);
  return presses ? `<div class="qv-dial-buttons">${each.join("")}</div>` : "";
}

// The names of a picture's parts, each after a square of its colour, and the caption.
function legend(plot, colors, at) {
  const names = plot.names.map(
    ([name, color]) => `<b><span style="color:${colors[color]}">■</span> ${name}</b>`,
  );
  return [...names, `<span data-caption="${at}">${plot.caption}</span>`].join(" · ");
}

function rules(colors) {
  return `${sliderRules({ line: colors.line, handle: colors.accent, text: colors.text })}
    .qv-dial { font: var(--qv-14) ${colors.font}; color: ${colors.text}; font-variant-numeric: tabular-nums; }
    .qv-dial p { margin: 0 0 4px; line-height: 1.35; min-height: 2.7em; max-width: 78ch; }
    .qv-dial.qv-on-wall p { min-height: 1.35em; max-width: none; }
    .qv-dial p:empty, .qv-dial [hidden] { display: none; }
    .qv-dial label { display: flex; justify-content: space-between; gap: 1em; margin-bottom: -8px; }
    .qv-dial-plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(260px, 100%), 1fr));
      gap: 4px 16px; }
    .qv-dial figure { margin: 0; }
    .qv-dial figcaption { font-size: var(--qv-12); line-height: 1.3; color: ${colors.muted}; }
    .qv-dial canvas { display: block; width: 100%; }
    .qv-dial-buttons { display: flex; gap: 4px; margin-bottom: 6px; }
    .qv-dial-buttons button { flex: 1 1 0; min-width: 0; height: 44px; padding: 0; font: inherit; cursor: pointer;
      color: ${colors.text}; background: none; border: 1px solid ${colors.line}; border-radius: 8px; }
    .qv-dial-buttons button[aria-pressed=true] { border: 2px solid ${colors.accent}; }
    .qv-dial-buttons button:focus-visible { outline: 3px solid ${colors.text}; outline-offset: 2px; }
  `;
}

export default lasting(Dial);
