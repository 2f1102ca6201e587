// What one plays with on the front door: a picture or a row of weights, a slider of bits, and the way of the
// number that was touched. Everything follows the hand here; the server is asked for nothing.

import { unpacked } from "./arithmetic/quantizing.js";
import { arrowStep, cellBeside } from "./page/keys.js";
import { Motion, isStill, placeOf, sweepOf } from "./page/motion.js";
import { significant } from "./panels/numbers.js";
import { filled } from "./ruler/figures.js";
import { JOURNEY, JourneyPainter, phaseOf } from "./home/journey.js";
import { PictureView, RowView, SumsToy, SumsView, paintSums, saySums, shadesOf } from "./home/views.js";
import { DIGITS, Toy } from "./home/results.js";
import { playRules } from "./home/rules.js";
import { lasting } from "./page/component.js";

// Milliseconds of rest after which the touched number goes its way again.
const REST = 450;
// The picture's own ends, and the height of half the row's picture.
const GREY_ENDS = [0, 255];
const ROW_END = 4.2;

class Play {
  constructor(host) {
    Object.assign(this, { motion: new Motion(), holding: false, t: 1 });
    this.root = host.appendChild(document.createElement("div"));
    this.root.className = "qv-play";
    this.observer = new ResizeObserver(() => this.paint());
    this.observer.observe(this.root);
    document.fonts?.ready.then(() => this.way && this.paint());
  }

  // Take the words and colours that the server sent, and keep what was chosen.
  dress(data) {
    const before = this.toys;
    this.data = data;
    this.words = data.words;
    this.shades = shadesOf(data.errors);
    const programs = unpacked(data);
    this.toys = data.toys.map((told) =>
      told.name === "sums"
        ? new SumsToy(told, data.sums)
        : new Toy(told, programs, data[told.name], data.writing),
    );
    this.toys.forEach((toy, i) => (toy.at = before?.[i].at ?? toy.at));
    this.toy = this.toys[before ? before.indexOf(this.toy) : 0];
    this.build();
  }

  update(data, send) {
    this.send = send;
    const look = JSON.stringify([data.language, data.colors]);
    if (look === this.look) {
      if (data.sums.length === this.data.sums.length) return;
      // They are measured once the page is there.
      this.data = data;
      this.toys.at(-1).take(data.sums);
      return this.choose(this.bits);
    }
    this.look = look;
    this.dress(data);
    if (this.bits) return this.choose(this.bits);
    // Who comes back from another page has seen it.
    const seen = window.__quantvizSwept || isStill();
    window.__quantvizSwept = true;
    this.choose(seen ? this.toy.telling : this.toy.most);
    if (!seen) this.sweep();
  }

  number(value, digits = DIGITS) {
    return significant(value, digits, this.data.writing);
  }

  build() {
    const { words, root, data } = this;
    this.said = null;
    const switches = this.toys.map(
      (toy) => `<button type="button" role="radio" data-toy="${toy.name}"></button>`,
    );
    root.innerHTML = `<style>${playRules(data.colors)}</style><div class="qv-play-grid">
      <div class="qv-play-top"><div class="qv-switch" role="radiogroup">${switches.join("")}</div>
        <span class="qv-size"></span></div>
      <div class="qv-views">
        <figure><canvas class="qv-made" tabindex="0" role="button"></canvas><figcaption></figcaption></figure>
        <figure><canvas class="qv-error" role="img"></canvas><figcaption></figcaption></figure>
        <a class="qv-every"><span></span></a>
      </div>
      <div class="qv-bits"><span class="qv-count" aria-hidden="true"></span>
        <span class="qv-note"><span class="qv-size"></span><span class="qv-hold"></span></span>
        <div class="qv-track"><span class="qv-fill"></span><input type="range" step="1">
          <span class="qv-thumb" aria-hidden="true"></span></div></div>
      <div class="qv-way"><div class="qv-sum" aria-hidden="true"></div><canvas role="img"></canvas></div>
      <div class="qv-heard" role="status"></div></div>`;
    const find = (name) => root.querySelector(name);
    this.parts = {
      made: find(".qv-made"),
      error: find(".qv-error"),
      captions: [...root.querySelectorAll("figcaption")],
      sizes: [...root.querySelectorAll(".qv-size")],
      count: find(".qv-count"),
      input: find("input"),
      track: find(".qv-track"),
      sum: find(".qv-sum"),
      way: find(".qv-way canvas"),
      every: find(".qv-every"),
      heard: find(".qv-heard"),
      switches: [...root.querySelectorAll("[role=radio]")],
    };
    find(".qv-hold").textContent = words.hold;
    find(".qv-switch").setAttribute("aria-label", words.choice);
    this.parts.input.setAttribute("aria-label", words.slider);
    this.toys.forEach((toy, i) => (this.parts.switches[i].textContent = toy.label));
    this.views = this.toys.map((toy) => {
      const View = { row: RowView, picture: PictureView, sums: SumsView }[toy.name];
      const { writing } = data;
      return { made: new View(this.parts.made, writing), error: new View(this.parts.error, writing) };
    });
    this.way = new JourneyPainter(this.parts.way, data);
    this.listen();
  }

  get view() {
    return this.views[this.toys.indexOf(this.toy)];
  }

  listen() {
    const { made, input, every, switches } = this.parts;
    input.addEventListener("pointerdown", () => this.settle());
    input.addEventListener("input", () => {
      this.settle();
      this.choose(Number(input.value));
      this.travelSoon();
    });
    made.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      made.setPointerCapture(event.pointerId);
      this.settle();
      this.touch(event);
      this.hold(true);
    });
    made.addEventListener("pointermove", (event) => this.holding && this.touch(event));
    for (const name of ["pointerup", "pointercancel", "lostpointercapture", "blur"])
      made.addEventListener(name, () => this.hold(false));
    made.addEventListener("contextmenu", (event) => event.preventDefault());
    made.addEventListener("keydown", (event) => this.type(event));
    made.addEventListener("keyup", (event) => [" ", "Enter"].includes(event.key) && this.hold(false));
    every.addEventListener("click", (event) => {
      if (event.metaKey || event.ctrlKey || event.shiftKey) return;
      event.preventDefault();
      this.send("go", { page: this.toy.name === "sums" ? "model" : "lab", parameters: this.parameters() });
    });
    for (const [i, button] of switches.entries()) {
      button.addEventListener("click", () => this.turn(i));
      button.addEventListener("keydown", (event) => {
        const step = arrowStep(event);
        if (!step) return;
        event.preventDefault();
        const next = (i + step[0] + step[1] + switches.length) % switches.length;
        this.turn(next);
        switches[next].focus();
      });
    }
  }

  // ---- what a hand does

  touch(event) {
    const box = this.parts.made.getBoundingClientRect();
    const at = this.view.made.cellAt(event.clientX - box.left, event.clientY - box.top);
    if (at === this.toy.at && this.t === 1) return this.travel();
    if (at === this.toy.at) return;
    this.toy.at = at;
    this.paint();
    this.travel();
  }

  hold(holding) {
    if (holding === this.holding) return;
    this.holding = holding;
    this.parts.made.setAttribute("aria-pressed", String(holding));
    this.paint();
  }

  type(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === " " || event.key === "Enter") {
      event.preventDefault();
      this.settle();
      return this.hold(true);
    }
    const step = arrowStep(event)?.map((by) => by * (event.shiftKey ? 10 : 1));
    if (!step) return;
    event.preventDefault();
    this.settle();
    const { rows, cols, at } = this.toy;
    this.toy.at = cellBeside(at, step, rows, cols);
    this.t = 1;
    this.paint();
    this.travelSoon();
  }

  turn(i) {
    if (this.toys[i] === this.toy) return;
    this.settle();
    this.toy = this.toys[i];
    this.choose(this.toy.telling);
    this.travel();
  }

  // The address of the Lab, or of the adder, in this state.
  parameters() {
    const { toy, bits } = this;
    if (toy.name === "sums") return { f: "model:adder", bits: String(bits), lang: this.data.language };
    const { scheme } = toy.result(bits).variant;
    const { cell, view } = toy.place();
    const { link_version: v, language: lang } = this.data;
    return { v, t: toy.source, s: scheme, c: cell, a: view, lang };
  }

  // ---- what moves

  // Stop what moves by itself: a hand has come.
  settle() {
    clearTimeout(this.resting);
    if (!this.motion.runs) return;
    this.motion.stop();
    this.t = 1;
    this.choose(this.bits);
  }

  sweep() {
    const { least, most, telling } = this.toy;
    const sweep = sweepOf(least, most, telling);
    this.motion.start((elapsed) => {
      const place = placeOf(sweep, elapsed);
      if (place === null) {
        this.choose(telling);
        this.travel();
        return false;
      }
      const bits = Math.round(place);
      if (bits !== this.bits) this.choose(bits);
      this.placeThumb(place);
      return true;
    });
  }

  travelSoon() {
    clearTimeout(this.resting);
    this.resting = setTimeout(() => this.travel(), REST);
  }

  travel() {
    clearTimeout(this.resting);
    if (isStill()) {
      this.t = 1;
      return this.paintWay();
    }
    this.motion.start((elapsed) => {
      this.t = Math.min(elapsed / JOURNEY, 1);
      this.paintWay();
      return this.t < 1;
    });
  }

  // ---- what is shown

  choose(bits) {
    const { toy, parts, words } = this;
    this.bits = Math.min(Math.max(bits, toy.least), toy.most);
    const { variant } = toy.result(this.bits);
    const count = filled(this.bits === 1 ? words.bit : words.bits, {
      bits: this.bits,
      levels: variant.levels,
    });
    this.root.dataset.toy = toy.name;
    parts.count.textContent = count;
    for (const part of parts.sizes) part.textContent = variant.size;
    Object.assign(parts.input, { min: toy.least, max: toy.most });
    parts.input.value = this.bits;
    parts.input.setAttribute("aria-valuetext", count);
    this.toys.forEach((each, i) => {
      const chosen = each === toy;
      parts.switches[i].setAttribute("aria-checked", String(chosen));
      parts.switches[i].tabIndex = chosen ? 0 : -1;
    });
    this.placeThumb(this.bits);
    this.paint();
  }

  placeThumb(place) {
    const { toy, parts } = this;
    parts.track.style.setProperty("--at", (place - toy.least) / (toy.most - toy.least));
  }

  paint() {
    const { toy, parts, words } = this;
    if (!this.view || !this.bits) return;
    parts.every.href = `${toy.name === "sums" ? "checkpoints" : "lab"}?${new URLSearchParams(this.parameters())}`;
    const result = toy.result(this.bits);
    if (toy.name === "sums") return paintSums(this, result.run);
    const drawn = this.holding ? toy.x : result.x_hat;
    const row = toy.name === "row";
    if (row) this.paintRow(result, drawn);
    else this.paintPicture(result, drawn);
    const few = filled(this.bits === 1 ? words.few_one : words.few, { bits: this.bits });
    const told = { few, zeros: result.zeros, count: toy.x.length };
    const caption = filled(row ? words.made_row : words.made, told);
    const end = this.number(row ? result.largest : this.errorEnd(), 3);
    parts.captions[0].textContent = this.holding ? words.original : caption;
    parts.captions[1].textContent = filled(row ? words.error_row : words.error, { end });
    parts.error.setAttribute("aria-label", parts.captions[1].textContent);
    parts.made.setAttribute("aria-label", filled(words.hold_keys, { name: toy.label, few }));
    parts.made.setAttribute("aria-pressed", String(this.holding));
    if (!this.motion.runs) this.placeThumb(this.bits);
    this.paintWay();
  }

  // The ends of the error's colours stay: half a step with the bits that tell most.
  errorEnd() {
    return this.toy.result(this.toy.telling).scale / 2;
  }

  // Draw what was made of the numbers, and the error, each with what its picture is drawn by.
  paintBoth(made, error) {
    const { toy, view, data } = this;
    for (const [each, drawing] of [
      [view.made, made],
      [view.error, error],
    ]) {
      if (!each.fit(toy.rows, toy.cols)) continue;
      each.paint(...drawing);
      each.mark(toy.at, data.colors.mark);
    }
  }

  paintPicture({ error }, drawn) {
    const end = this.errorEnd();
    this.paintBoth([drawn, ...GREY_ENDS], [error, -end, end, this.shades]);
  }

  paintRow({ error }, drawn) {
    const { colors } = this.data;
    const filling = { ...colors, positive: colors.handle, negative: colors.handle };
    const signed = { ...colors, positive: colors.over, negative: colors.under };
    const behind = this.holding ? null : this.toy.x;
    this.paintBoth([drawn, behind, ROW_END, filling], [error, null, ROW_END, signed]);
  }

  paintWay() {
    const { toy, parts, words, t } = this;
    parts.every.firstElementChild.textContent = `${toy.name === "sums" ? words.every_sum : words.every} →`;
    if (toy.name === "sums") {
      this.said = null;
      return saySums(this, toy.result(this.bits).run);
    }
    const journey = toy.journey(this.bits);
    const few = toy.x.length <= 64 ? toy.x : null;
    const ends = toy.name === "row" ? rowEnds(journey) : GREY_ENDS;
    this.way.paint(journey, t, ends, few);
    const { x, scale, ratio, code, x_hat, error } = journey;
    const numbers = Object.fromEntries(
      Object.entries({ x, scale, ratio, code, x_hat, error }).map(([name, each]) => [
        name,
        this.number(each),
      ]),
    );
    if (error > 0) numbers.error = `+${numbers.error}`;
    const phase = phaseOf(t);
    const key = JSON.stringify([numbers, phase, this.data.language]);
    if (key === this.said) return;
    this.said = key;
    parts.sum.innerHTML = ["<b>{x}</b>", words.divide, words.round, words.multiply, words.off]
      .map((part, from) => `<span class="${phase >= from ? "qv-said" : ""}">${filled(part, numbers)}</span>`)
      .join("");
    const sentence = filled(words.ruler, numbers);
    parts.way.setAttribute("aria-label", sentence);
    // Said once it has come to rest, not on the way.
    if (phase === 4 && !this.motion.runs && this.spoken !== sentence)
      parts.heard.textContent = this.spoken = sentence;
  }

  close() {
    clearTimeout(this.resting);
    this.motion.stop();
    this.observer.disconnect();
    this.root.remove();
  }
}

// The ends of the row's ruler: as far below 0 as above.
function rowEnds({ levels }) {
  const far = Math.max(-levels[0], levels.at(-1)) * 1.04;
  return [-far, far];
}

export default lasting(Play);
