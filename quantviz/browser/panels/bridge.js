import { SHARED } from "../page/component.js";
import { kept } from "../page/kept.js";
import { same, windowOf } from "./geometry.js";
import { drawn, sightOf, subjectOf } from "./layout.js";
import { drawOverlay } from "./overlay.js";
import { leaveCell } from "./hover.js";
import { lookAtWindow } from "./zoom.js";
import { onPointerUp, showSelected, takeEarlyClick } from "./clicks.js";
import { savePicture } from "./saved_picture.js";
import { PageChart } from "./page_chart.js";
import { showSwitch } from "./panel_switch.js";
import { findChart, measureWidth, writeRules } from "./chart.js";

// One chart of panels and all that the browser knows of it. The modules beside this one act on it;
// `minimap.js` and the buttons that save a picture find it in `SHARED.bridges` and call its methods.
export class Bridge extends PageChart {
  constructor(chart) {
    super();
    this.chart = chart;
    this.remember(chart);
    this.live = null;
    this.style = document.head.appendChild(document.createElement("style"));
    this.sizes = new ResizeObserver(() => measureWidth(this));
    const options = { signal: this.stop.signal };
    window.addEventListener("pointerup", (event) => onPointerUp(this, event), { ...options, capture: true });
    window.addEventListener("pointercancel", () => (this.press = null), options);
  }

  find() {
    findChart(this);
  }

  leave() {
    leaveCell(this);
  }

  // Charts of one group share one memory: zoom, whether it is being changed, and panel.
  remember(group) {
    const none = { zoom: null, turning: false, panel: null, asked: null };
    this.memory = kept(SHARED.memory, group, () => none);
  }

  get companions() {
    return [...SHARED.bridges.values()].filter((bridge) => bridge !== this && bridge.memory === this.memory);
  }

  update({ data, parentElement, setTriggerValue, setStateValue }) {
    this.data = data;
    this.remember(data.group);
    this.host = parentElement;
    this.send = setTriggerValue;
    this.keep = setStateValue;
    // A click stays marked until the server has answered it; an earlier answer does not count.
    if (this.pending && same(this.pending, data.selected)) this.pending = null;
    writeRules(this);
    this.card.paint(data.colors);
    findChart(this);
    measureWidth(this);
    drawOverlay(this);
    // The chart may have joined or left a group.
    if (this.gd) showSwitch(this);
    takeEarlyClick(this);
  }

  close() {
    super.close();
    this.sizes.disconnect();
    this.style.remove();
    // The place may be the next bridge's, which shows its own.
    this.bar?.remove();
    if (this.container) this.container.style.visibility = "";
  }

  get selected() {
    return this.pending ?? this.data?.selected ?? null;
  }

  // While a hand moves something, `live` has the cells as they are then.
  get cells() {
    const { stamp, open } = this.meta ?? {};
    // The chart of another step may come before the hand hears of that.
    if (this.live && this.meta && this.live.subject === subjectOf(this.meta)) return this.live;
    // Chart and cells arrive one after the other: never show the numbers of another chart.
    const fitting = (cells) => cells.stamp === stamp && String(cells.open) === String(open);
    return [...(SHARED.cells.get(this.chart)?.values() ?? [])].findLast(fitting) ?? null;
  }

  get meta() {
    return this.gd?._fullLayout?.meta;
  }

  // The panel that a phone shows: the last one chosen, else the first one to show, else what is quantized: an
  // error says nothing to who has not seen of what.
  get panel() {
    const { panels, open } = this.meta;
    return (
      [this.memory.panel, this.data.first, "x_hat", "x"].find((name) => open.includes(name)) ??
      open.at(-1) ??
      panels.at(-1)
    );
  }

  // The window in sight, for the mini-map.
  get inSight() {
    return drawn(this.gd?._fullLayout) ? windowOf(sightOf(this), this.meta) : null;
  }

  // Draw what new cells bring.
  draw() {
    drawOverlay(this);
    takeEarlyClick(this);
  }

  lookAt(window) {
    lookAtWindow(this, window);
  }

  // Show a cell as the selected one, of which the server hears in another way.
  select(cell) {
    showSelected(this, cell, 0);
  }

  save(format, figure = null) {
    return savePicture(this, format, figure);
  }
}
