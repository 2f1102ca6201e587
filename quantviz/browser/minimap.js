// The small picture of the whole matrix. It tells the panels' bridge which window to show, and draws its
// frame only where the bridge says, so that the two never differ.

import { SHARED } from "./page/tables.js";
import { clamp } from "./panels/geometry.js";
import { span } from "./panels/numbers.js";

// Pixels of the smallest frame that can still be seen and grabbed.
const LEAST_FRAME = 8;

export default function ({ data, parentElement }) {
  const map = (parentElement.minimap ??= new Minimap(parentElement));
  map.update(data);
  SHARED.maps.set(data.chart, map);
  return () => {
    if (SHARED.maps.get(data.chart) === map) SHARED.maps.delete(data.chart);
    map.root.remove();
    delete parentElement.minimap;
  };
}

class Minimap {
  constructor(parent) {
    this.root = parent.appendChild(document.createElement("div"));
    Object.assign(this.root.style, {
      display: "flex",
      gap: "10px",
      alignItems: "center",
      flexWrap: "wrap",
      font: "13px sans-serif",
    });
    this.map = this.root.appendChild(document.createElement("div"));
    this.map.className = "qv-minimap";
    this.map.tabIndex = 0;
    this.map.setAttribute("role", "group");
    Object.assign(this.map.style, {
      position: "relative",
      flex: "none",
      overflow: "hidden",
      touchAction: "none",
      userSelect: "none",
      cursor: "crosshair",
      borderRadius: "2px",
    });
    this.picture = this.map.appendChild(document.createElement("img"));
    this.picture.alt = "";
    this.picture.draggable = false;
    Object.assign(this.picture.style, {
      display: "block",
      width: "100%",
      height: "100%",
      imageRendering: "auto",
      pointerEvents: "none",
    });
    this.frame = this.map.appendChild(document.createElement("div"));
    this.frame.className = "qv-minimap-frame";
    Object.assign(this.frame.style, { position: "absolute", boxSizing: "border-box", pointerEvents: "none" });
    const aside = this.root.appendChild(document.createElement("div"));
    Object.assign(aside.style, {
      display: "flex",
      flexDirection: "column",
      alignItems: "flex-start",
      gap: "4px",
    });
    this.line = aside.appendChild(document.createElement("div"));
    this.line.style.fontVariantNumeric = "tabular-nums";
    this.line.setAttribute("aria-live", "polite");
    this.button = aside.appendChild(document.createElement("button"));
    this.button.type = "button";
    this.button.addEventListener("click", () =>
      this.look({ top: 0, left: 0, rows: this.data.rows, cols: this.data.cols }),
    );
    this.map.addEventListener("pointerdown", (event) => this.grabbed(event));
    this.map.addEventListener("pointermove", (event) => this.grip && this.dragged(event));
    for (const name of ["pointerup", "pointercancel"])
      this.map.addEventListener(name, () => (this.grip = null));
    this.map.addEventListener("keydown", (event) => this.typed(event));
  }

  update(data) {
    this.data = data;
    const { colors, labels, width, height } = data;
    Object.assign(this.root.style, { color: colors.text, fontFamily: colors.font });
    Object.assign(this.map.style, {
      width: `${width}px`,
      height: `${height}px`,
      outlineColor: colors.mark,
      boxShadow: `0 0 0 1px ${colors.line}`,
    });
    this.map.setAttribute("aria-label", labels.map);
    if (this.picture.src !== data.picture) this.picture.src = data.picture;
    this.button.textContent = labels.whole;
    Object.assign(this.button.style, {
      font: "inherit",
      color: colors.text,
      background: colors.surface,
      border: `1px solid ${colors.line}`,
      borderRadius: "6px",
      padding: "3px 10px",
      minHeight: "28px",
      cursor: "pointer",
    });
    this.show(SHARED.bridges.get(data.chart)?.inSight ?? data.window);
  }

  // Frame the window that the panels show.
  show(window) {
    this.window = window;
    const { rows, cols, width, height, colors, labels } = this.data;
    const across = Math.max((window.cols / cols) * width, LEAST_FRAME);
    const down = Math.max((window.rows / rows) * height, LEAST_FRAME);
    const left = clamp(((window.left + window.cols / 2) / cols) * width - across / 2, 0, width - across);
    const top = clamp(((window.top + window.rows / 2) / rows) * height - down / 2, 0, height - down);
    Object.assign(this.frame.style, {
      left: `${left}px`,
      top: `${top}px`,
      width: `${across}px`,
      height: `${down}px`,
      border: `2px solid ${colors.mark}`,
      // Dim everything but the frame.
      boxShadow: `0 0 0 400px color-mix(in srgb, ${colors.surface} 45%, transparent)`,
    });
    const places = {
      rows: span(window.top, window.rows),
      cols: span(window.left, window.cols),
      all_rows: rows,
      all_cols: cols,
    };
    this.line.textContent = labels.where.replace(/\{(\w+)\}/g, (_, name) => places[name]);
  }

  look(window) {
    const { rows, cols } = this.data;
    const size = {
      rows: clamp(Math.round(window.rows), 1, rows),
      cols: clamp(Math.round(window.cols), 1, cols),
    };
    const top = clamp(Math.round(window.top), 0, rows - size.rows);
    const left = clamp(Math.round(window.left), 0, cols - size.cols);
    SHARED.bridges.get(this.data.chart)?.lookAt({ top, left, ...size });
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
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    const factor = { "+": 0.5, "=": 0.5, "-": 2, "−": 2 }[event.key];
    if (!step && !factor && event.key !== "0") return;
    event.preventDefault();
    if (step)
      return this.look({
        ...this.window,
        top: top + (step[0] * rows) / 2,
        left: left + (step[1] * cols) / 2,
      });
    if (!factor) return this.look({ top: 0, left: 0, rows: this.data.rows, cols: this.data.cols });
    this.look({
      rows: rows * factor,
      cols: cols * factor,
      top: top + (rows * (1 - factor)) / 2,
      left: left + (cols * (1 - factor)) / 2,
    });
  }
}
