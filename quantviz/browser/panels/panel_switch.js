// The buttons that choose the one panel a phone shows.

import { tuckAway } from "../page/tuck_away.js";
import { drawOverlay } from "./overlay.js";

export function showSwitch(bridge) {
  const single = bridge.meta?.arrangement === "single";
  // A group has one switch, at its first chart.
  const leads = single && bridge.data.group === bridge.chart;
  tuckAway(bridge.host, !leads);
  if (bridge.container) bridge.container.dataset.qvPanel = single ? bridge.panel : "";
  const { panels, enlarged = 1 } = bridge.meta ?? {};
  const build = leads ? JSON.stringify([panels, enlarged, bridge.data.labels, bridge.data.colors]) : "";
  if (bridge.built === build && bridge.bar?.isConnected === leads) return showPressed(bridge);
  bridge.built = build;
  bridge.bar?.remove();
  bridge.bar = null;
  if (!leads) return;
  const { labels, colors } = bridge.data;
  bridge.bar = document.createElement("div");
  bridge.bar.setAttribute("role", "group");
  bridge.bar.setAttribute("aria-label", labels.switch);
  Object.assign(bridge.bar.style, {
    display: "flex",
    border: `1px solid ${colors.line}`,
    borderRadius: "8px",
    overflow: "hidden",
    font: `${14 * enlarged}px ${colors.font}`,
  });
  for (const name of bridge.meta.panels) {
    const button = bridge.bar.appendChild(document.createElement("button"));
    button.type = "button";
    button.value = name;
    button.textContent = labels.tabs[name];
    Object.assign(button.style, {
      flex: "1",
      minHeight: "44px",
      border: "0",
      font: "inherit",
      cursor: "pointer",
    });
    button.addEventListener("click", () => {
      bridge.memory.panel = name;
      for (const each of [bridge, ...bridge.companions]) showChosenPanel(each);
    });
  }
  bridge.host.append(bridge.bar);
  showPressed(bridge);
}

function showChosenPanel(bridge) {
  if (!bridge.gd || !bridge.container) return;
  bridge.container.dataset.qvPanel = bridge.panel;
  showPressed(bridge);
  drawOverlay(bridge);
}

function showPressed(bridge) {
  const { colors } = bridge.data;
  for (const button of bridge.bar?.children ?? []) {
    const on = button.value === bridge.panel;
    button.setAttribute("aria-pressed", String(on));
    button.disabled = !bridge.meta.open.includes(button.value);
    button.style.opacity = button.disabled ? "0.55" : "";
    Object.assign(button.style, {
      background: on ? colors.text : "transparent",
      color: on ? colors.surface : colors.text,
      fontWeight: on ? "600" : "400",
    });
  }
}
