// The buttons that choose the one panel a phone shows.

import { tuckAway } from "../page/component.js";
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
  bridge.bar.className = "qv-panel-switch";
  bridge.bar.setAttribute("role", "group");
  bridge.bar.setAttribute("aria-label", labels.switch);
  bridge.bar.innerHTML = `<style>${switchRules(colors, enlarged)}</style>`;
  for (const name of bridge.meta.panels) {
    const button = bridge.bar.appendChild(document.createElement("button"));
    button.type = "button";
    button.value = name;
    button.textContent = labels.tabs[name];
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
  for (const button of bridge.bar?.querySelectorAll("button") ?? []) {
    button.setAttribute("aria-pressed", String(button.value === bridge.panel));
    button.disabled = !bridge.meta.open.includes(button.value);
  }
}

// The page's own colours change with its theme at once.
function switchRules({ font }, enlarged) {
  return `
    .qv-panel-switch { display: flex; border: 1px solid var(--qv-line); border-radius: 8px; overflow: hidden;
      font: ${14 * enlarged}px ${font}; }
    .qv-panel-switch button { flex: 1; min-height: 44px; border: 0; font: inherit; cursor: pointer;
      background: transparent; color: var(--qv-text); }
    .qv-panel-switch button[aria-pressed=true] { background: var(--qv-tint); color: var(--qv-on-tint);
      box-shadow: inset 0 0 0 1px var(--qv-accent); font-weight: 600; }
    .qv-panel-switch button:disabled { opacity: 0.55; }
  `;
}
