// Saving the panels as a picture file.

import { drawn, panelsOf, sightOf } from "./layout.js";
import { inkOn } from "./colours.js";
import { LOST, LOST_INK, lostIn, lostPanel } from "./overlay.js";
import { printsIn } from "./printed_values.js";
import { showWhole } from "./zoom.js";

// The font of a saved picture.
const PLAIN = "sans-serif";

// Save the visible part with its printed values and marks, or a given `figure`, as "png" or "svg".
export async function savePicture(bridge, format, figure = null) {
  if (!drawn(bridge.gd?._fullLayout) || typeof window.Plotly?.downloadImage !== "function") return;
  const { data, layout } = withTitle(bridge, figure ?? figureInView(bridge));
  const { width, height } = layout;
  await window.Plotly.downloadImage(
    { data, layout, config: { staticPlot: true } },
    {
      format,
      width,
      height,
      scale: format === "png" ? 2 : 1,
      filename: bridge.data.picture?.name ?? "quantviz",
    },
  );
}

// The chart as it is on the screen, with what is drawn over it. On a phone that is one panel.
function figureInView(bridge) {
  const { data, layout } = bridge.gd;
  const panels = panelsOf(bridge);
  const { x, y } = sightOf(bridge);
  const seen = panels.map(({ name }) => bridge.meta.panels.indexOf(name));
  const mine = (owners) => (_, i) => owners[i] === undefined || owners[i] < 0 || seen.includes(owners[i]);
  const looked = {
    ...layout,
    annotations: layout.annotations.filter(mine(bridge.meta.annotations)),
    shapes: layout.shapes.filter(mine(bridge.meta.shapes)),
  };
  for (const i of bridge.meta.panels.keys()) {
    const n = i ? i + 1 : "";
    looked[`xaxis${n}`] = { ...layout[`xaxis${n}`], range: x };
    looked[`yaxis${n}`] = { ...layout[`yaxis${n}`], range: y };
  }
  const texts = printsIn(bridge, panels).map((print) => textTrace(bridge, print));
  looked.shapes = [...looked.shapes, ...lostShapes(bridge, panels), ...markShapes(bridge, panels)];
  return {
    data: [...data.filter(({ name }) => panels.some((panel) => panel.name === name)), ...texts],
    layout: looked,
  };
}

function axesOf(bridge, name) {
  const i = bridge.meta.panels.indexOf(name);
  return [`x${i ? i + 1 : ""}`, `y${i ? i + 1 : ""}`];
}

function textTrace(bridge, { panel, scale, size, labels }) {
  const [xaxis, yaxis] = axesOf(bridge, panel.name);
  const color = labels.map(({ value }) => inkOn(scale, value));
  return {
    type: "scatter",
    mode: "text",
    xaxis,
    yaxis,
    x: labels.map(({ col }) => col),
    y: labels.map(({ row }) => row),
    text: labels.map(({ label }) => label),
    textfont: { size: size * Math.min(1, bridge.cells.writing.digit / digitWidth()), color },
    showlegend: false,
  };
}

// The empty frames where a value became 0, in one path.
function lostShapes(bridge, panels) {
  const panel = lostPanel(bridge, panels);
  const frames = panel ? lostIn(panel, bridge.cells) : [];
  if (!frames.length) return [];
  const [xref, yref] = axesOf(bridge, panel.name);
  const frame = ([x, y]) => `M${x},${y}H${x + LOST}V${y + LOST}H${x}Z`;
  const line = { color: bridge.data.colors.text, width: 1 };
  return [{ type: "path", path: frames.map(frame).join(""), xref, yref, line, opacity: LOST_INK }];
}

function markShapes(bridge, panels) {
  if (!bridge.selected) return [];
  const [row, col] = bridge.selected;
  const place = { type: "rect", x0: col - 0.5, x1: col + 0.5, y0: row - 0.5, y1: row + 0.5 };
  const lines = [
    { color: bridge.data.colors.halo, width: 4 },
    { color: bridge.data.colors.mark, width: 2 },
  ];
  return panels
    .filter(({ name }) => bridge.meta.open.includes(name))
    .flatMap(({ name }) => {
      const [xref, yref] = axesOf(bridge, name);
      return lines.map((line) => ({ ...place, xref, yref, line }));
    });
}

// The figure with its own background and two title lines above it.
function withTitle(bridge, { data, layout }) {
  const { colors, picture } = bridge.data;
  const page = { paper_bgcolor: colors.surface, plot_bgcolor: colors.surface };
  const lines = [
    [picture?.title, 14, 27],
    [picture?.subtitle, 12, 8],
  ].filter(([words]) => words);
  // Plotly interprets tags in texts, and a tensor's name may contain one.
  const safe = (words) => words.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  const annotations = lines.map(([words, size, yshift]) => ({
    text: size === 14 ? `<b>${safe(words)}</b>` : safe(words),
    xref: "paper",
    yref: "paper",
    x: 0,
    y: 1,
    xanchor: "left",
    yanchor: "bottom",
    yshift,
    showarrow: false,
    borderpad: 0,
    font: {
      size: Math.max(7, Math.min(size, layout.width / (digitWidth() * widthOf(words)))),
      color: colors.text,
    },
  }));
  // A saved picture cannot use the page's fonts: lay it out with a font that it has.
  const font = { ...layout.font, family: PLAIN };
  const above = lines.length ? 52 : 8;
  const margin = { ...layout.margin, l: 8, r: 8, t: above, b: layout.margin.b + 8 };
  return {
    data,
    layout: {
      ...layout,
      ...page,
      font,
      margin,
      width: layout.width + 16,
      height: layout.height + above + 8,
      annotations: [...layout.annotations, ...annotations],
    },
  };
}

// The width of a digit in a saved picture, as a share of the font size.
function digitWidth() {
  const canvas = document.createElement("canvas").getContext("2d");
  canvas.font = `100px ${PLAIN}`;
  return canvas.measureText("0").width / 100;
}

// The width of a text in characters; a Chinese character counts as two.
function widthOf(words) {
  return [...words].reduce((sum, character) => sum + (character.codePointAt(0) > 0x2e7f ? 2 : 1), 0);
}

export function onModebarClick(bridge, event) {
  // The first button of plotly's bar is its camera, which would miss what is drawn over the chart.
  const button = event.target.closest?.(".modebar-btn");
  if (button && button === bridge.gd?.querySelector(".modebar-btn") && !button.dataset.attr) {
    event.stopPropagation();
    return savePicture(bridge, "png");
  }
  // Plotly's reset button would show the part that the figure was made for; show the whole matrix instead.
  if (!event.target.closest?.(".modebar-btn[data-attr=zoom][data-val=reset]")) return;
  event.stopPropagation();
  showWhole(bridge);
}
