// The part of the matrix in sight: move it, restore it after a new drawing, and ask the server for its cells.

import {
  clamp,
  close,
  fingers,
  placeIn,
  rangesOf,
  sameWindow,
  sharesOf,
  turned,
  windowOf,
} from "./geometry.js";
import { leaveCell } from "./hover.js";
import { panelUnder, panelsOf, pixelUnder, sightOf } from "./layout.js";
import { drawOverlay } from "./overlay.js";

// Milliseconds without a move before the server is asked for the part in sight.
const QUIET = 200;
// Milliseconds to wait for its answer.
const ZOOM_PATIENCE = 4000;

export function afterZoom(bridge) {
  if (bridge.restoring) return;
  intendSight(bridge, sightOf(bridge));
  drawOverlay(bridge);
  for (const companion of bridge.companions) followCompanion(companion);
}

function intendSight(bridge, { x, y }) {
  bridge.memory.zoom = { tensor: bridge.meta.tensor, x, y, window: windowOf({ x, y }, bridge.meta) };
  if (!bridge.data.windows || bridge.meta.whole) return;
  bridge.memory.turning = true;
  bridge.later("window", QUIET, () => askForWindow(bridge));
}

// The part that the server will show next, as far as the browser knows.
function expectedWindow(bridge) {
  const { asked } = bridge.memory;
  return asked && performance.now() - asked.at < ZOOM_PATIENCE ? asked.window : bridge.meta.window;
}

// Ask for the part in sight once no button or finger is down.
function askForWindow(bridge) {
  if (bridge.press || bridge.pinch || !bridge.meta)
    return bridge.later("window", QUIET, () => askForWindow(bridge));
  bridge.memory.turning = false;
  const { window } = bridge.memory.zoom ?? bridge.meta;
  if (sameWindow(window, expectedWindow(bridge))) return;
  bridge.memory.asked = { window, at: performance.now() };
  bridge.send("window", window);
}

export function lookAtWindow(bridge, window) {
  if (bridge.meta) aimAt(bridge, rangesOf(window));
}

export function showWhole(bridge) {
  if (bridge.meta) lookAtWindow(bridge, { top: 0, left: 0, rows: bridge.meta.rows, cols: bridge.meta.cols });
}

// Look at a part; once a frame, however often it is called.
export function aimAt(bridge, sight) {
  leaveCell(bridge);
  if (!bridge.aimed) {
    requestAnimationFrame(() => {
      const { x, y } = bridge.aimed;
      bridge.aimed = null;
      if (!bridge.meta || typeof window.Plotly?.relayout !== "function") return;
      // Remember it first: otherwise a chart just drawn would be zoomed back.
      intendSight(bridge, { x, y });
      window.Plotly.relayout(bridge.gd, { "xaxis.range": x, "yaxis.range": y });
    });
  }
  bridge.aimed = sight;
}

// Move and zoom from a sight, so that the place `from` (in cells) comes to lie at `share` (0 to 1) of the
// panel.
function aimFrom(bridge, { x, y }, factor, from, share) {
  const { rows, cols } = bridge.meta;
  const [top, bottom] = turned([y[1], y[0]], factor, from.row, share.down, rows);
  aimAt(bridge, { x: turned(x, factor, from.col, share.across, cols), y: [bottom, top] });
}

// Show the same part as the companion that was zoomed.
function followCompanion(bridge) {
  if (!bridge.gd || typeof window.Plotly?.relayout !== "function") return;
  const { x, y } = bridge.memory.zoom ?? rangesOf(bridge.meta.window);
  relayoutTo(bridge, x, y);
}

function relayoutTo(bridge, x, y) {
  bridge.restoring = true;
  Promise.resolve(window.Plotly.relayout(bridge.gd, { "xaxis.range": [...x], "yaxis.range": [...y] }))
    .catch(() => {})
    .finally(() => (bridge.restoring = false));
}

// Streamlit draws a new chart twice, so the wanted part is restored for about a second. Returns whether the
// picture is going to move.
export function restoreZoom(bridge) {
  const { zoom, asked } = bridge.memory;
  if (asked && sameWindow(asked.window, bridge.meta.window)) bridge.memory.asked = null;
  if (!zoom || performance.now() - bridge.adopted > 1200 || bridge.restores >= 5) return false;
  // Forget the zoom when the figure shows another tensor, or a window that nobody asked for.
  const local = bridge.meta.whole || !bridge.data.windows;
  if (
    zoom.tensor !== bridge.meta.tensor ||
    !(local || bridge.memory.turning || sameWindow(zoom.window, expectedWindow(bridge)))
  ) {
    bridge.memory.zoom = null;
    return false;
  }
  const { x, y } = sightOf(bridge);
  if ((close(x, zoom.x) && close(y, zoom.y)) || typeof window.Plotly?.relayout !== "function") return false;
  bridge.restores += 1;
  relayoutTo(bridge, zoom.x, zoom.y);
  return true;
}

// ---- the wheel and two fingers -----------------------------------------------------------------

export function onWheel(bridge, event) {
  const panel = panelUnder(bridge, event.clientX, event.clientY);
  // While a chart is being replaced there is nothing to zoom, but the page must not scroll either.
  if (!bridge.gd && bridge.ghost) event.preventDefault();
  if (!panel || event.target.closest?.(".modebar") || !(event.ctrlKey || bridge.meta.large)) return;
  const unit = [1, 16, 100][event.deltaMode];
  const [dx, dy] = [event.deltaX * unit, event.deltaY * unit];
  const sight = bridge.aimed ?? sightOf(bridge);
  const aside = !event.ctrlKey && (event.shiftKey || Math.abs(dx) > Math.abs(dy));
  const { share } = panel;
  const from = placeIn(sight, share);
  // A notch of a wheel is 100 pixels; a trackpad's pinch sends a few at a time.
  const factor = aside ? 1 : Math.exp(clamp(dy * (event.ctrlKey ? 0.01 : 0.002), -0.7, 0.7));
  const { rows, cols } = bridge.meta;
  const all =
    !aside && factor > 1 && sight.x[1] - sight.x[0] >= cols - 1e-6 && sight.y[0] - sight.y[1] >= rows - 1e-6;
  // Zooming out further than the whole matrix scrolls the page, unless it is the end of the same turn.
  if (all && !event.ctrlKey && performance.now() - (bridge.turnedAt ?? -Infinity) > 400) return;
  event.preventDefault();
  if (all) return;
  bridge.turnedAt = performance.now();
  aimFrom(
    bridge,
    sight,
    factor,
    from,
    aside ? { ...share, across: share.across - (dx || dy) / panel.panel.width } : share,
  );
}

export function onTouchStart(bridge, event) {
  bridge.pinch = null;
  if (event.touches.length !== 2) return;
  const { middle, apart } = fingers(event.touches);
  const panel = panelUnder(bridge, ...middle);
  if (!panel) return;
  event.preventDefault();
  event.stopPropagation();
  bridge.press = null;
  bridge.pinch = {
    name: panel.panel.name,
    sight: sightOf(bridge),
    apart,
    from: placeIn(sightOf(bridge), panel.share),
  };
}

export function onTouchMove(bridge, event) {
  if (event.touches.length !== 2 || !bridge.pinch || !bridge.gd) return;
  event.preventDefault();
  event.stopPropagation();
  const { middle, apart } = fingers(event.touches);
  const panel = panelsOf(bridge).find(({ name }) => name === bridge.pinch.name);
  const { px, py } = pixelUnder(bridge, ...middle);
  if (panel)
    aimFrom(
      bridge,
      bridge.pinch.sight,
      bridge.pinch.apart / Math.max(apart, 1),
      bridge.pinch.from,
      sharesOf(panel, px, py),
    );
}
