// The sliders below the values' names: each moves a number of the layer. A mouse, a finger and the keys do.

import { Status } from "../hand/status.js";
import { kept } from "../page/kept.js";
import { KeysMove } from "../page/keys_move.js";
import { sliderRules } from "../page/slider.js";
import { powerOfTen, toUnit } from "../ruler/figures.js";
import { significant } from "../panels/numbers.js";

// Steps from one end of a slider to the other, about.
const KNOB_STEPS = 400;
// Milliseconds without another key after which a move by keys ends.
const KEYS = 500;

export class Knobs {
  // `moves` has `move(name, value)`, `release()` and `cancel()`.
  constructor(parent, moves) {
    this.moves = moves;
    this.keys = new KeysMove(() => moves.release());
    this.style = document.createElement("style");
    this.row = document.createElement("div");
    this.row.className = "qv-knobs";
    this.knobs = new Map();
    // Over the picture's margin: the knobs leave it no room, and stay where the hand is.
    this.status = new Status(this.row, "top: 100%; left: 0; z-index: 1; background: var(--qv-page);");
    parent.append(this.style, this.row);
  }

  // Show the knobs of `list`: a name, words, a value and its two ends each.
  show(list, colors, writing) {
    const rules = knobRules(colors);
    if (this.style.textContent !== rules) this.style.textContent = rules;
    Object.assign(this, { colors, writing });
    this.refuse("");
    const names = list.map(({ name }) => name);
    for (const [name, knob] of this.knobs) if (!names.includes(name)) this.drop(name, knob);
    for (const each of list) {
      const knob = kept(this.knobs, each.name, (name) => this.made(name));
      const unit = powerOfTen((each.most - each.least) / KNOB_STEPS);
      Object.assign(knob, each, { unit });
      knob.title.textContent = each.words;
      Object.assign(knob.input, { min: each.least, max: each.most, step: unit });
      knob.input.setAttribute("aria-label", each.words);
      this.write(each.name, each.value);
      this.row.append(knob.label);
    }
  }

  drop(name, knob) {
    knob.label.remove();
    this.knobs.delete(name);
  }

  made(name) {
    const label = document.createElement("label");
    label.className = "qv-knob";
    label.innerHTML = `<span class="qv-knob-words"></span><b></b><span class="qv-track"><input type="range">
      <span class="qv-thumb"></span></span>`;
    const [title, value, track] = label.children;
    const knob = { label, title, number: value, track, input: track.querySelector("input") };
    const { input } = knob;
    input.addEventListener("input", () => {
      this.keys.forget();
      this.moves.move(name, toUnit(Number(input.value), knob.unit));
    });
    input.addEventListener("pointerdown", () => (this.pointer = true));
    input.addEventListener("change", () => this.letGo() || this.keys.goOn(KEYS));
    // What came back to where it was is no change.
    for (const ended of ["pointerup", "pointercancel"]) input.addEventListener(ended, () => this.letGo());
    input.addEventListener("keydown", ({ key }) => key === "Escape" && this.giveUp());
    return knob;
  }

  // Return whether a pointer held a knob.
  letGo() {
    const { pointer } = this;
    this.pointer = false;
    if (pointer) this.moves.release();
    return pointer;
  }

  giveUp() {
    this.keys.forget();
    this.moves.cancel();
  }

  // Show why a knob cannot stand where a hand put it; it stays at its last place.
  refuse(reason, name = null) {
    this.status.say(reason, this.colors);
    if (name) this.write(name, this.knobs.get(name).shown);
  }

  // Show a value of a knob.
  write(name, value) {
    const knob = this.knobs.get(name);
    if (!knob) return;
    knob.shown = value;
    const { number, track, input, least, most } = knob;
    const words = significant(value, 3, this.writing);
    if (number.textContent !== words) number.textContent = words;
    input.value = value;
    input.setAttribute("aria-valuetext", words);
    track.style.setProperty("--at", Math.min(Math.max((value - least) / (most - least), 0), 1));
  }

  close() {
    this.keys.forget();
    this.status.close();
    this.style.remove();
    this.row.remove();
  }
}

function knobRules(colors) {
  return `${sliderRules({ line: colors.line, handle: colors.handle, text: colors.text })}
    .qv-knobs { position: relative; display: grid; grid-auto-flow: column; gap: 0 1rem;
      grid-auto-columns: minmax(0, 1fr); color: ${colors.text}; font: var(--qv-12) ${colors.font}; }
    .qv-knob { display: grid; grid-template-columns: auto 1fr; gap: 0 0.4rem; align-items: baseline;
      height: 46px; overflow: hidden; }
    .qv-knob-words { white-space: nowrap; overflow: hidden; text-overflow: ellipsis; color: ${colors.muted}; }
    .qv-knob b { font-weight: 600; font-variant-numeric: tabular-nums; }
    .qv-knob .qv-track { grid-column: 1 / -1; margin-top: -8px; }
    @media (max-width: 640px) {
      .qv-knobs { grid-auto-flow: row; }
      .qv-knob { grid-template-columns: 9.5rem 3.4rem minmax(0, 1fr); align-items: center; height: 44px; }
      .qv-knob .qv-track { grid-column: auto; margin: 0; }
    }
  `;
}
