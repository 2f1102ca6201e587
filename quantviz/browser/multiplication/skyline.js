// How loud each input channel is, as a skyline over the picture, and the ceiling that the one scale of X
// reaches: a hand drags it up and down, or keys move it.

import { significant } from "../panels/numbers.js";
import { drawChildren, element } from "../page/elements.js";
import { KeysMove } from "../page/keys_move.js";
import { Drag } from "../page/number_drag.js";
import { filled } from "../ruler/figures.js";

// The height of the bars, in pixels, and the room above them for the ceiling of a wider range.
export const SKYLINE = 56;
const OVER_BARS = 1.15;
// Steps of a key from the ground to the top, and milliseconds without a key after which a move ends.
const CEILING_STEPS = 200;
const REST = 500;

export class Skyline {
  // `moves` has `prepare()`, `move("ceiling", value)`, `release()` and `cancel()`.
  constructor(parent, moves) {
    this.moves = moves;
    this.keys = new KeysMove(() => moves.release());
    this.style = document.createElement("style");
    this.box = document.createElement("div");
    this.box.className = "qv-skyline";
    this.box.innerHTML = `<p><span></span><b></b></p><div class="qv-towers"><svg preserveAspectRatio="none"
      aria-hidden="true"></svg><b class="qv-loud"></b><i class="qv-ceiling" tabindex="0" role="slider"
      aria-orientation="vertical" aria-valuemin="0"></i></div>`;
    const [title, towers] = this.box.children;
    [this.title, this.reach] = title.children;
    [this.svg, this.label, this.ceiling] = towers.children;
    this.towers = towers;
    // What a frame needs is made ready before a hand takes the ceiling.
    towers.addEventListener("pointerenter", () => this.ceiling.hidden || moves.prepare());
    this.drag = new Drag(towers, (event) => this.grabbed(event));
    this.ceiling.addEventListener("keydown", (event) => this.key(event));
    parent.append(this.style, this.box);
  }

  // Show the largest |x| of each bar (`sizes`) with the loud channel's number, and the ceiling, null for none.
  show({ sizes, channels, loud, words, colors, writing }, ceiling) {
    const rules = skylineRules(colors);
    if (this.style.textContent !== rules) this.style.textContent = rules;
    const largest = sizes.reduce((most, size) => Math.max(most, size), 0) || 1;
    Object.assign(this, { sizes, words, writing, top: OVER_BARS * Math.max(largest, ceiling ?? 0) });
    this.title.textContent = words.skyline;
    this.label.textContent = loud ?? "";
    const right = ((loud ?? 0) + 1) / channels;
    this.label.style.left = `${100 * (right > 0.9 ? right - 1 / channels : right)}%`;
    this.label.style.transform = right > 0.9 ? "translateX(-100%)" : "";
    this.towers.classList.toggle("qv-still", ceiling === null);
    this.ceiling.setAttribute("aria-label", words.ceiling);
    this.ceiling.setAttribute("aria-valuemax", this.top);
    this.svg.setAttribute("viewBox", `0 0 ${sizes.length} ${this.top}`);
    this.ceiling.hidden = ceiling === null;
    this.write(ceiling);
  }

  // Draw the bars up to the ceiling, and what it cuts off in another colour.
  write(ceiling) {
    const { sizes, top } = this;
    const reached = ceiling ?? top;
    const bars = (from, to) =>
      Array.from(sizes, (size, i) => {
        const [low, high] = [Math.min(size, from), Math.min(size, to)];
        return high > low ? `M${i} ${top - low}V${top - high}h1V${top - low}z` : "";
      }).join("");
    drawChildren(
      this.svg,
      [
        ["qv-below", bars(0, reached)],
        ["qv-over", bars(reached, top)],
      ],
      () => element("path", {}),
      (path, [name, d]) => {
        path.setAttribute("class", name);
        path.setAttribute("d", d);
      },
    );
    if (ceiling === null) return (this.reach.textContent = "");
    const value = significant(ceiling, 3, this.writing);
    this.value = ceiling;
    this.reach.textContent = filled(this.words.drag, { value });
    this.ceiling.style.top = `${SKYLINE * (1 - ceiling / top)}px`;
    this.ceiling.setAttribute("aria-valuenow", ceiling);
    this.ceiling.setAttribute("aria-valuetext", value);
  }

  // What a pointer takes hold of: the ceiling, which comes to where it is.
  grabbed(event) {
    // A finger takes the line's end: elsewhere it scrolls the page.
    const isBeside = event.pointerType === "touch" && event.target !== this.ceiling;
    if (this.ceiling.hidden || isBeside) return null;
    this.towers.setPointerCapture(event.pointerId);
    this.ceiling.focus({ preventScroll: true });
    const downAt = ({ clientY }) => clientY - this.towers.getBoundingClientRect().top;
    const off = downAt(event) - SKYLINE * (1 - this.value / this.top);
    const grip = Math.abs(off) < 12 ? off : 0;
    return {
      valueAt: (now) => this.within(this.top * (1 - (downAt(now) - grip) / SKYLINE)),
      move: (value) => this.moves.move("ceiling", value),
      release: () => this.moves.release(),
      giveUp: () => this.moves.cancel(),
    };
  }

  within(value) {
    return Number(Math.min(Math.max(value, this.top / CEILING_STEPS), this.top).toPrecision(3));
  }

  key(event) {
    const steps = { ArrowUp: 1, ArrowRight: 1, ArrowDown: -1, ArrowLeft: -1, PageUp: 10, PageDown: -10 };
    const way = { ...steps, Home: -CEILING_STEPS, End: CEILING_STEPS }[event.key];
    if (event.key === "Escape") {
      this.keys.forget();
      return this.drag.held ? this.drag.giveUp() : this.moves.cancel();
    }
    if (!way) return;
    event.preventDefault();
    this.moves.move("ceiling", this.within(this.value + (way * this.top) / CEILING_STEPS));
    this.keys.goOn(REST);
  }

  close() {
    this.keys.forget();
    this.drag.close();
    this.style.remove();
    this.box.remove();
  }
}

function skylineRules({ text, muted, line, font, handle, bar, over }) {
  return `
    .qv-skyline { color: ${text}; font: var(--qv-12) ${font}; }
    .qv-skyline p { display: flex; justify-content: space-between; margin: 0; line-height: 18px;
      color: ${muted}; }
    .qv-skyline p b { color: ${handle}; font-weight: 600; font-variant-numeric: tabular-nums; }
    .qv-towers { position: relative; height: ${SKYLINE}px; border-bottom: 1px solid ${line}; }
    .qv-towers:not(.qv-still) { cursor: ns-resize; }
    .qv-towers svg { position: absolute; inset: 0; width: 100%; height: 100%; }
    .qv-below { fill: ${bar}; }
    .qv-over { fill: ${over}; }
    .qv-loud { position: absolute; top: 6px; padding: 0 4px; font-size: var(--qv-14); }
    .qv-ceiling { position: absolute; right: 0; left: 0; height: 0; border-top: 2px solid ${handle}; }
    .qv-ceiling::before { content: ""; position: absolute; right: 0; top: -7px; width: 24px; height: 12px;
      border-radius: 6px; background: ${handle}; }
    .qv-ceiling::after { content: ""; position: absolute; right: 0; top: -23px; width: 44px; height: 44px;
      touch-action: none; }
    .qv-ceiling:focus-visible { outline: none; }
    .qv-ceiling:focus-visible::before { outline: 3px solid ${text}; outline-offset: 2px; }
    @media (forced-colors: active) { .qv-ceiling::before { border: 2px solid ButtonText; } }
  `;
}
