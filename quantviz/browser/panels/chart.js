// Finding plotly's chart in the page: Streamlit throws it away and draws it again with each change of its
// data.

import { element } from "../page/elements.js";
import { drawn, subjectOf } from "./layout.js";
import { drawOverlay } from "./overlay.js";
import { leaveCell, onPointerMove } from "./hover.js";
import { afterZoom, onTouchMove, onTouchStart, onWheel, restoreZoom } from "./zoom.js";
import { extentOf, onArrowKey, onMouseDown, onPointerDown, takeEarlyClick } from "./clicks.js";
import { onModebarClick } from "./saved_picture.js";
import { showSwitch } from "./panel_switch.js";

export function findChart(bridge) {
  const container = document.querySelector(`.st-key-${CSS.escape(bridge.chart)}`);
  if (container !== bridge.container) listenTo(bridge, container);
  const gd = container?.querySelector(".js-plotly-plot") ?? null;
  if (bridge.gd && gd !== bridge.gd) {
    bridge.lose();
    bridge.overlay = null;
  }
  if (bridge.ghost && tellsTooMuch(bridge, gd?._fullLayout?.meta)) bridge.dropGhost();
  // Plotly may draw the same chart from scratch: then the overlay and the listeners are lost.
  const bare = gd && (gd !== bridge.gd || !bridge.overlay.isConnected);
  // A zoom before plotly has attached its mouse handlers would leave the chart without them.
  if (bare && drawn(gd._fullLayout) && gd.querySelector(".main-svg .nsewdrag")) adoptChart(bridge, gd);
}

function listenTo(bridge, container) {
  bridge.container = container;
  bridge.sizes.disconnect();
  if (!container) return;
  bridge.sizes.observe(container);
  const { signal } = bridge.stop;
  const listen = (name, act, options = {}) =>
    container.addEventListener(name, (event) => act(bridge, event), { signal, ...options });
  listen("pointermove", onPointerMove);
  // A finger leaves as soon as it is lifted, but its card stays.
  listen("pointerleave", (_, event) => event.pointerType !== "touch" && leaveCell(bridge));
  listen("pointerdown", onPointerDown, { capture: true });
  listen("mousedown", onMouseDown, { capture: true });
  listen("keydown", onArrowKey);
  listen("click", onModebarClick, { capture: true });
  listen("wheel", onWheel, { passive: false });
  listen("touchstart", onTouchStart, { capture: true, passive: false });
  listen("touchmove", onTouchMove, { capture: true, passive: false });
  for (const name of ["touchend", "touchcancel"])
    listen(name, () => (bridge.pinch = null), { capture: true });
  listen("focusout", leaveCell);
}

// Whether the old picture may tell what a chart that is being drawn covers: then the page rather blinks.
function tellsTooMuch(bridge, meta) {
  return Boolean(meta?.panels) && meta.open.length < meta.panels.length && subjectOf(meta) !== bridge.subject;
}

function adoptChart(bridge, gd) {
  bridge.gd = gd;
  bridge.adopted = performance.now();
  bridge.restores = 0;
  gd.querySelectorAll(".qv-overlay").forEach((old) => old.remove());
  bridge.overlay = element("svg", { class: "qv-overlay", "aria-hidden": "true" });
  bridge.layers = Object.fromEntries(
    ["lost", "values", "bands", "marks"].map((name) => [name, bridge.overlay.appendChild(element("g", {}))]),
  );
  const heard = {
    plotly_afterplot: () => gd === bridge.gd && afterPlot(bridge),
    plotly_relayout: () => gd === bridge.gd && afterZoom(bridge),
    plotly_relayouting: () => gd === bridge.gd && drawOverlay(bridge),
  };
  for (const [name, act] of Object.entries(heard)) {
    if (bridge.heard) gd.removeListener?.(name, bridge.heard[name]);
    gd.on(name, act);
  }
  bridge.heard = heard;
  // A canvas of a hand's comes in here: beside plotly's own parts, the page would be styled anew for it.
  bridge.slot = document.createElement("div");
  bridge.container.dataset.qvArrangement = bridge.meta?.arrangement ?? "";
  writeRules(bridge);
  (gd.closest(".stPlotlyChart") ?? gd).tabIndex = 0;
  afterPlot(bridge);
}

function afterPlot(bridge) {
  const svgs = bridge.gd.querySelector(".svg-container");
  if (svgs && bridge.overlay.parentNode !== svgs) svgs.append(bridge.slot, bridge.overlay);
  const moving = restoreZoom(bridge);
  showSwitch(bridge);
  drawOverlay(bridge);
  bridge.subject = subjectOf(bridge.meta);
  // Where all is covered there is no image to wait for.
  const complete = bridge.gd.querySelector(".cartesianlayer image") || !bridge.meta.open.length;
  if (!moving && complete) bridge.dropGhost();
  const outer = bridge.container.getBoundingClientRect();
  const { left, top, width, height } = bridge.gd.getBoundingClientRect();
  bridge.place = { left: left - outer.left, top: top - outer.top, width, height };
  bridge.extent = extentOf(bridge);
  if (!moving) takeEarlyClick(bridge);
}

export function measureWidth(bridge) {
  const width = bridge.container?.clientWidth;
  if (!width || !bridge.data) return;
  bridge.container.dataset.qvMeasured = "";
  const name = (w) => Object.keys(bridge.data.breakpoints).find((each) => w >= bridge.data.breakpoints[each]);
  const wrong = name(width) !== name(bridge.data.width);
  // The figure is for another arrangement: hide it for a moment, so that it does not jump.
  bridge.container.style.visibility = wrong && !bridge.gaveUp ? "hidden" : "";
  if (wrong)
    bridge.later("hidden", 3000, () => ((bridge.gaveUp = true), (bridge.container.style.visibility = "")));
  if (!wrong && Math.abs(width - bridge.data.width) <= 0.03 * bridge.data.width) {
    // From now on it takes its own room.
    bridge.container.dataset.qvArranged = "";
    return;
  }
  if (width === bridge.told) return;
  bridge.later("width", bridge.told ? 250 : 0, () => bridge.keep("width", (bridge.told = width)));
}

// Write the style sheet of one chart, which depends on the chart's panels: a new one costs the whole page.
export function writeRules(bridge) {
  const rules = rulesFor(bridge);
  if (bridge.style.textContent !== rules) bridge.style.textContent = rules;
}

function rulesFor(bridge) {
  const here = `.st-key-${CSS.escape(bridge.chart)}`;
  const rules = [
    `${here} { position: relative; }`,
    // Streamlit would fade the picture while the server works.
    `${here} [data-stale=true], ${here}[data-stale=true] {
      opacity: 1 !important; transition: none !important;
    }`,
    `${here} .qv-overlay {
      position: absolute; inset: 0; width: 100%; height: 100%; pointer-events: none; overflow: hidden;
    }`,
    `${here} .stPlotlyChart:focus-visible {
      outline: 2px solid ${bridge.data.colors.mark}; outline-offset: 2px;
    }`,
    `${here}[data-qv-arrangement=single] .nsewdrag { cursor: pointer; touch-action: pan-y; }`,
    // A finger scrolls the page, and plotly's bar would cover the titles on a phone.
    `@media (pointer: coarse) {
      ${here} .nsewdrag { touch-action: pan-y; }
      ${here} .modebar { display: none !important; }
    }`,
  ];
  const { panels = [], shapes = [], annotations = [] } = bridge.meta ?? {};
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
