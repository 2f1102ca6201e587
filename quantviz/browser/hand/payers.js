// Who pays while the size of a value is dragged: what it changes in the other cells.

import { significant } from "../panels/numbers.js";
import { filled } from "../ruler/figures.js";
import { NARROW } from "../ruler/places.js";

// What became of all cells but the one at `place`: how many are rounded to 0, and their squared error, before
// and now, and which have an error that grew by more than half a step, as steps were before.
export function payersOf(before, now, place) {
  const paying = new Uint8Array(now.error.length);
  const found = { paying, count: 0, zeroed: [0, 0], noise: [0, 0] };
  for (let i = 0; i < paying.length; i++) {
    if (i === place || !Number.isFinite(now.x[i])) continue;
    [before, now].forEach(({ x, x_hat: landed, error }, k) => {
      found.noise[k] += error[i] * error[i];
      if (x[i] && !landed[i]) found.zeroed[k] += 1;
    });
    if (Math.abs(now.error[i]) - Math.abs(before.error[i]) <= before.step[i] / 2) continue;
    paying[i] = 1;
    found.count += 1;
  }
  return found;
}

// The line below the ruler that says so; a hint until a value is dragged.
export class Payers {
  constructor(host) {
    this.host = host;
    this.paying = null;
  }

  // Take what the server knows. What the last drag cost is still said while its value stands.
  update({ pays, settings, selected }, { x }) {
    if (!pays) return this.close();
    if (!this.line) {
      this.line = document.createElement("div");
      this.line.className = "qv-payers";
      this.line.setAttribute("role", "status");
    }
    this.host.append(this.line);
    const { font, text, surface } = settings.colours;
    // In the room above the dots; a phone has its own line for it.
    const above = (this.host.host ?? this.host).clientWidth >= NARROW && {
      position: "absolute",
      inset: "2px auto auto 10px",
    };
    Object.assign(this.line.style, {
      font: `14px/20px ${font}`,
      color: text,
      background: surface,
      position: "static",
      pointerEvents: "none",
      ...above,
    });
    Object.assign(this, { pays, writing: settings.writing, paying: null });
    const told = this.told?.place === selected && this.told.value === x[selected] ? this.told : null;
    this.say(told?.words ?? pays.hint);
  }

  // Say what the value at `place` costs the others; their errors are compared with those `before` the drag.
  tell(before, now, place) {
    if (!this.pays) return;
    const { paying, count, zeroed, noise } = payersOf(before, now, place);
    const written = (value, digits = 4) => significant(value, digits, this.writing);
    const times = noise[1] / noise[0];
    const words = filled(this.pays.told, {
      before: written(before.x[place]),
      value: written(now.x[place]),
      zeroed_before: zeroed[0],
      zeroed: zeroed[1],
      times: Number.isFinite(times) ? written(times, 3) : "–",
      count,
    });
    this.paying = paying;
    this.told = { place, value: now.x[place], words };
    this.say(words);
  }

  // The hand gave up: nobody paid.
  forget() {
    this.paying = this.told = null;
    if (this.line) this.say(this.pays.hint);
  }

  say(words) {
    if (this.line.textContent !== words) this.line.textContent = words;
  }

  close() {
    this.line?.remove();
    this.line = this.pays = this.paying = null;
  }
}
