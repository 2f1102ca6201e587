// The style sheet of one chart: it depends on the panels that the chart has.
export function styleRules(bridge) {
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
