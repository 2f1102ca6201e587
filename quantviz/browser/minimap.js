// The small picture of the whole matrix. It tells the panels' bridge which window to show, and draws its
// frame only where the bridge says, so that the two never differ.

import { lasting, SHARED } from "./page/component.js";
import { arrowStep } from "./page/keys.js";
import { clamp, inPixels } from "./panels/geometry.js";
import { span } from "./panels/numbers.js";
import { filled } from "./ruler/figures.js";

// Pixels of the smallest frame that can still be seen and grabbed.
const LEAST_FRAME = 8;

class Minimap {
  constructor(parent) {
    this.root = parent.appendChild(document.createElement("div"));
    this.root.className = "qv-minimap-root";
    this.root.innerHTML = `<style></style>
      <div class="qv-minimap" tabindex="0" role="group">
        <img alt="" draggable="false"><div class="qv-minimap-frame"></div></div>
      <div class="qv-minimap-words"><div aria-live="polite"></div><button type="button"></button></div>`;
    const names = { style: "style", map: ".qv-minimap", picture: "img", frame: ".qv-minimap-frame" };
    for (const [part, name] of Object.entries({ ...names, line: "[aria-live]", button: "button" }))
      this[part] = this.root.querySelector(name);
    this.button.addEventListener("click", () => this.lookAtAll());
    this.map.addEventListener("pointerdown", (event) => this.grabbed(event));
    this.map.addEventListener("pointermove", (event) => this.grip && this.dragged(event));
    for (const name of ["pointerup", "pointercancel"])
      this.map.addEventListener(name, () => (this.grip = null));
    this.map.addEventListener("keydown", (event) => this.typed(event));
  }

  update(data) {
    this.data = data;
    SHARED.maps.set(data.chart, this);
    const { colors, labels, width, height } = data;
    this.style.textContent = mapRules(colors);
    Object.assign(this.map.style, inPixels({ width, height }));
    this.map.setAttribute("aria-label", labels.map);
    if (this.picture.src !== data.picture) this.picture.src = data.picture;
    this.button.textContent = labels.whole;
    this.show(SHARED.bridges.get(data.chart)?.inSight ?? data.window);
  }

  // Frame the window that the panels show.
  show(window) {
    this.window = window;
    const { rows, cols, width, height, labels } = this.data;
    const across = Math.max((window.cols / cols) * width, LEAST_FRAME);
    const down = Math.max((window.rows / rows) * height, LEAST_FRAME);
    const left = clamp(((window.left + window.cols / 2) / cols) * width - across / 2, 0, width - across);
    const top = clamp(((window.top + window.rows / 2) / rows) * height - down / 2, 0, height - down);
    Object.assign(this.frame.style, inPixels({ left, top, width: across, height: down }));
    const places = {
      rows: span(window.top, window.rows),
      cols: span(window.left, window.cols),
      all_rows: rows,
      all_cols: cols,
    };
    this.line.textContent = filled(labels.where, places);
  }

  lookAtAll() {
    this.look({ top: 0, left: 0, rows: this.data.rows, cols: this.data.cols });
  }

  look(window) {
    const { rows, cols } = this.data;
    const [down, across] = [clamp(Math.round(window.rows), 1, rows), clamp(Math.round(window.cols), 1, cols)];
    const top = clamp(Math.round(window.top), 0, rows - down);
    const left = clamp(Math.round(window.left), 0, cols - across);
    SHARED.bridges.get(this.data.chart)?.lookAt({ top, left, rows: down, cols: across });
  }

  // The row and column under the pointer, as fractions.
  under(event) {
    const box = this.map.getBoundingClientRect();
    return {
      row: ((event.clientY - box.top) / box.height) * this.data.rows,
      col: ((event.clientX - box.left) / box.width) * this.data.cols,
    };
  }

  grabbed(event) {
    if (event.button) return;
    this.map.setPointerCapture(event.pointerId);
    const { row, col } = this.under(event);
    const { top, left, rows, cols } = this.window;
    const inside = row >= top && row < top + rows && col >= left && col < left + cols;
    // Grabbed inside, the frame keeps its place under the pointer; a press outside brings its middle there.
    this.grip = inside ? { row: row - top, col: col - left } : { row: rows / 2, col: cols / 2 };
    if (!inside) this.dragged(event);
  }

  dragged(event) {
    const { row, col } = this.under(event);
    this.look({ ...this.window, top: row - this.grip.row, left: col - this.grip.col });
  }

  typed(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const { top, left, rows, cols } = this.window;
    const step = arrowStep(event);
    const factor = { "+": 0.5, "=": 0.5, "-": 2, "−": 2 }[event.key];
    if (!step && !factor && event.key !== "0") return;
    event.preventDefault();
    if (!step && !factor) return this.lookAtAll();
    const [down, across] = step ?? [1 - factor, 1 - factor];
    const size = step ? { rows, cols } : { rows: rows * factor, cols: cols * factor };
    this.look({ ...size, top: top + (down * rows) / 2, left: left + (across * cols) / 2 });
  }

  close() {
    if (SHARED.maps.get(this.data.chart) === this) SHARED.maps.delete(this.data.chart);
    this.root.remove();
  }
}

function mapRules({ text, font, line, mark, surface }) {
  return `
    .qv-minimap-root { display: flex; gap: 10px; align-items: center; flex-wrap: wrap; color: ${text};
      font: 14px ${font}; }
    .qv-minimap { position: relative; flex: none; overflow: hidden; touch-action: none; user-select: none;
      cursor: crosshair; border-radius: 2px; outline-color: ${mark}; box-shadow: 0 0 0 1px ${line}; }
    .qv-minimap img { display: block; width: 100%; height: 100%; pointer-events: none; }
    /* Everything but the frame is dimmed. */
    .qv-minimap-frame { position: absolute; box-sizing: border-box; pointer-events: none;
      border: 2px solid ${mark};
      box-shadow: 0 0 0 400px color-mix(in srgb, ${surface} 45%, transparent); }
    .qv-minimap-words { display: flex; flex-direction: column; align-items: flex-start; gap: 4px;
      font-variant-numeric: tabular-nums; }
    .qv-minimap-words button { font: inherit; color: ${text}; background: ${surface};
      border: 1px solid ${line}; border-radius: 6px; padding: 3px 10px; min-height: 28px; cursor: pointer; }
  `;
}

export default lasting(Minimap);
