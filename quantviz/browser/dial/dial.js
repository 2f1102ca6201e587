// A slider over the values of a parameter, or a button for each of them. The server sends the sentence and the
// pictures of each value once; the knob shows them while it moves, and tells the server where it is let go.

import { paintDisc, paintLine, sharpen } from "../page/canvas.js";
import { sliderRules } from "../page/slider.js";
import { paintMarks } from "./marks.js";

// CSS pixels of a picture, and of the room above and below its lines.
const HEIGHT = 150;
const ROOM = 10;
// The least height of a picture, and its place on a wall, where what does not fit would be out of sight.
const LEAST = 60;
const PICTURE_ON_WALL = ".st-key-lesson_picture";

export class Dial {
  constructor(host, data, send) {
    this.root = host.appendChild(document.createElement("div"));
    this.root.className = "qv-dial";
    // The stop that the server has not answered yet.
    this.sent = null;
    this.observer = new ResizeObserver(() => this.paint());
    const place = (this.root.getRootNode().host ?? host).closest(PICTURE_ON_WALL);
    if (place && getComputedStyle(place).overflowY === "auto") this.place = place;
    this.root.classList.toggle("qv-on-wall", Boolean(this.place));
    for (const each of [this.root, this.place]) if (each) this.observer.observe(each);
    this.dress(data, send);
  }

  update(data, send) {
    // A hand that holds the slider keeps it.
    if (this.held && data.key === this.data.key) return;
    this.dress(data, send);
  }

  close() {
    this.observer.disconnect();
    this.root.remove();
  }

  dress(data, send) {
    this.send = send;
    // The answer to a stop before the newest one, as where a key is pressed again, moves nothing back.
    const isOld =
      !data.presses &&
      this.sent !== null &&
      this.sent !== data.now &&
      String(data.stops) === String(this.data?.stops);
    if (!isOld) this.sent = null;
    if (JSON.stringify(data) !== JSON.stringify(this.data)) this.build(data);
    this.go(isOld ? this.sent : data.now);
  }

  build(data) {
    const focused = this.input && this.input === this.root.getRootNode().activeElement;
    this.data = data;
    const figures = Object.entries(data.plots).map(
      ([at, plot]) =>
        `<figure><canvas data-plot="${at}" role="img" style="height:${plot.height ?? HEIGHT}px"></canvas><figcaption>${legend(plot, data.colors, at)}` +
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
    this.input.addEventListener("change", () => {
      this.held = false;
      this.sent = this.now;
      this.send("stop", this.now);
    });
    for (const button of this.root.querySelectorAll("button"))
      button.addEventListener("click", () => {
        this.go(Number(button.value));
        this.sent = this.now;
        this.send("stop", this.now);
      });
    if (focused) this.input.focus();
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
    const heights = canvases.map((canvas) => this.data.plots[canvas.dataset.plot].height ?? HEIGHT);
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
      const ratio = sharpen(canvas, width, height);
      const context = canvas.getContext("2d");
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      context.clearRect(0, 0, width, height);
      const plot = data.plots[canvas.dataset.plot];
      context.font = `${12 * (plot.larger ?? 1)}px ${data.colors.font}`;
      PAINTED[plot.kind]({ plot, now, context, width, height, colors: data.colors, stops: data.stops });
    }
  }
}

// What each kind of picture paints.
const PAINTED = {
  curve: paintCurve,
  mirrored: paintMirrored,
  spread: paintSpread,
  decay: paintDecay,
  marks: paintMarks,
};

// The error at every value on a logarithmic axis; a disc is the present one, a dashed line the error without.
function paintCurve({ plot, now, context, width, height, colors, stops }) {
  const known = [...plot.errors, plot.without].filter((error) => error > 0);
  const [low, high] = [Math.log(Math.min(...known)), Math.log(Math.max(...known))];
  const [left, foot] = [8, 34];
  const x = (at) => left + (at / (stops.length - 1)) * (width - 2 * left);
  const y = (error) =>
    ROOM + 6 + (1 - (Math.log(error) - low) / (high - low || 1)) * (height - foot - 2 * ROOM - 6);
  if (plot.without > 0) {
    context.setLineDash([4, 4]);
    paintLine(
      context,
      [
        [0, y(plot.without)],
        [width, y(plot.without)],
      ],
      colors.muted,
      1,
    );
    context.setLineDash([]);
    context.fillStyle = colors.muted;
    // Above the line on the half where the curve lies below it, else the other way round.
    const half = Math.ceil(plot.errors.length / 2);
    const halves = { right: plot.errors.slice(-half), left: plot.errors.slice(0, half) };
    const isFree = (side, above) => halves[side].every((error) => error <= plot.without === above);
    const above = y(plot.without) >= 16 && (isFree("right", true) || isFree("left", true));
    context.textAlign = !isFree("right", above) && isFree("left", above) ? "left" : "right";
    const words = `${plot.withoutWords} ${plot.written.at(-1)}`;
    const across = context.textAlign === "left" ? 2 : width - 2;
    context.fillText(words, across, y(plot.without) + (above ? -4 : 13));
  }
  const places = plot.errors.flatMap((error, at) => (error > 0 ? [[x(at), y(error)]] : []));
  paintLine(context, places, colors.first, 2);
  for (const [across, down] of places) paintDisc(context, across, down, 2.5, colors.first);
  context.fillStyle = colors.muted;
  context.textAlign = "left";
  context.fillText(stops[0], 0, height - 3);
  context.textAlign = "right";
  context.fillText(stops.at(-1), width, height - 3);
  if (!(plot.errors[now] > 0)) return;
  paintDisc(context, x(now), y(plot.errors[now]), 7, colors.accent, colors.surface, 2);
  context.fillStyle = colors.text;
  context.textAlign = now === 0 ? "left" : now === stops.length - 1 ? "right" : "center";
  context.fillText(plot.written[now], x(now), y(plot.errors[now]) + 21);
}

// Two numbers of each channel as shares of the largest of their side, upwards and downwards; lines show them
// before.
function paintMirrored({ plot, now, context, width, height, colors }) {
  const { count } = plot;
  const step = width / count;
  const middle = height / 2;
  const sides = [
    [plot.up, plot.upBefore, -1, colors.second],
    [plot.down, plot.downBefore, 1, colors.first],
  ];
  for (const [values, before, sign, color] of sides) {
    const tall = (share) => sign * share * (middle - 2);
    for (let k = 0; k < count; k++) {
      const end = tall(values[now * count + k]);
      context.fillStyle = k < plot.lit ? colors.lit : color;
      context.fillRect(k * step, middle + Math.min(end, 0), Math.max(step * 0.8, 0.8), Math.abs(end));
    }
    if (!before.length) continue;
    const outline = Array.from(before).flatMap((share, k) => [
      [k * step, middle + tall(share)],
      [(k + 1) * step, middle + tall(share)],
    ]);
    paintLine(context, outline, colors.text, 1);
  }
  context.fillStyle = colors.muted;
  context.fillRect(0, middle - 0.5, width, 1);
}

// The shares of values in bins between ±`reach` root mean squares on a logarithmic axis: bars at the present
// value, a line before, and a Gaussian as a dashed line.
function paintSpread({ plot, now, context, width, height, colors }) {
  const count = plot.before.length;
  const [size, foot] = [(2 * plot.reach) / count, 18];
  const x = (value) => ((value + plot.reach) / (2 * plot.reach)) * width;
  const deep = Math.log(plot.least / plot.most);
  const y = (share) =>
    ROOM + (Math.log(Math.max(share, plot.least) / plot.most) / deep) * (height - foot - ROOM);
  const end = (k) => k * size - plot.reach;
  const ground = y(0);
  context.fillStyle = colors.first;
  for (let k = 0; k < count; k++) {
    const top = y(plot.after[now * count + k]);
    context.fillRect(x(end(k)), top, Math.max(width / count - 0.6, 0.8), ground - top);
  }
  const steps = Array.from(plot.before).flatMap((share, k) => [
    [x(end(k)), y(share)],
    [x(end(k + 1)), y(share)],
  ]);
  paintLine(context, steps, colors.second, 2);
  const bell = Array.from({ length: count }, (_, k) => end(k) + size / 2).map((middle) => [
    x(middle),
    y((size * Math.exp((-middle * middle) / 2)) / Math.sqrt(2 * Math.PI)),
  ]);
  context.setLineDash([4, 4]);
  paintLine(
    context,
    bell.filter(([, down]) => down < ground),
    colors.text,
    1,
  );
  context.setLineDash([]);
  context.fillStyle = colors.muted;
  context.textAlign = "center";
  for (const [value, words] of plot.ticks) context.fillText(words, x(value), height - 3);
}

// The energy that each rank leaves of several matrices on a logarithmic axis; the present rank is a line.
function paintDecay({ plot, now, context, width, height, colors }) {
  const { count, least, ranks } = plot;
  const [left, foot, right] = [44, 18, 6];
  const x = (rank) => left + (rank / (count - 1)) * (width - left - right);
  const y = (share) => ROOM + (Math.log(Math.max(share, least)) / Math.log(least)) * (height - foot - ROOM);
  context.fillStyle = colors.muted;
  context.textAlign = "right";
  for (let share = 1; share >= least * 0.99; share /= 10) {
    context.fillText(`${Number((100 * share).toPrecision(1))} %`, left - 5, y(share) + 4);
    context.globalAlpha = 0.25;
    context.fillRect(left, y(share), width - left - right, 1);
    context.globalAlpha = 1;
  }
  context.fillText(plot.foot[1], width, height - 3);
  context.textAlign = "left";
  context.fillText(plot.foot[0], left, height - 3);
  const rank = ranks[now];
  paintLine(
    context,
    [
      [x(rank), ROOM],
      [x(rank), height - foot],
    ],
    colors.accent,
    2,
  );
  plot.names.forEach(([, color], at) => {
    const shares = plot[`line${at}`];
    const places = Array.from(shares).flatMap((share, k) => (share >= least ? [[x(k), y(share)]] : []));
    paintLine(context, places, colors[color], 2);
    if (shares[rank] >= least) paintDisc(context, x(rank), y(shares[rank]), 4, colors[color]);
  });
}

// A button for each value, where values are pressed.
function buttons({ presses, stops }) {
  const each = stops.map((stop, at) => stop && `<button type="button" value="${at}">${stop}</button>`);
  return presses ? `<div class="qv-dial-buttons">${each.join("")}</div>` : "";
}

// The names of a picture's parts, each after a square of its colour, and the caption.
function legend(plot, colors, at) {
  const names = (plot.names ?? []).map(
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
