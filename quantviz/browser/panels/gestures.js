// Zooming and moving with the wheel and with two fingers.

import { clamp, fingers, placeIn, sharesOf } from "./geometry.js";
import { panelsOf, panelUnder, pixelUnder, sightOf } from "./layout.js";
import { aimFrom } from "./zoom.js";

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
