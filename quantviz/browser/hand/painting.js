// The panels while a hand moves something: a canvas over plotly's heatmaps. Plotly takes several frames to
// draw what is drawn here in one; it gets the data when the hand lets go.

import { cellSize } from "../panels/geometry.js";
import { inkFor, INKS } from "../panels/colours.js";
import { clipTo, Cover } from "../panels/cover.js";
import { panelsOf } from "../panels/layout.js";
import { significant, textWidth } from "../panels/numbers.js";
import { printsIn } from "../panels/printed_values.js";
import { shownIn } from "./live_cells.js";

// Pixels between a panel and the scales beside it, and those below it: as plotly has them.
const GAP_BESIDE = 4;
const GAP_BELOW = 1;

export class Painting extends Cover {
  // Draw the bridge's live cells over its chart.
  paint(bridge, colours) {
    if (!bridge.gd || !bridge.overlay) return;
    this.begin(bridge.gd._fullLayout);
    const panels = panelsOf(bridge).filter((panel) => bridge.live.open.includes(panel.name));
    // What has not changed is still there as plotly drew it.
    const changed = panels.filter(({ name }) => name !== "x" || bridge.live.all);
    for (const panel of changed) {
      this.drawCells(panel, bridge);
      this.drawBorders(panel, bridge, colours);
      if (panel.name === "q") this.drawEdges(panel, bridge, colours);
      if (panel.name === "error" || panels.length === 1) this.drawPaying(panel, bridge.live, colours);
    }
    // Once it is drawn: on a canvas in the page each step would have the page laid out anew.
    if (this.canvas.parentNode !== bridge.slot) bridge.slot.append(this.canvas);
    writeEnds(bridge, bridge.live);
    // What stands until the server answers is printed as it will be then.
    if (bridge.live.still) return bridge.draw();
    for (const group of bridge.layers.values.children)
      group.style.visibility = changed.some(({ name }) => name === group.dataset.panel) ? "hidden" : "";
    for (const print of printsIn(bridge, panels))
      if (changed.includes(print.panel)) this.print(print, colours);
  }

  remove(bridge) {
    super.remove();
    for (const group of bridge?.layers?.values.children ?? []) group.style.visibility = "";
    if (!bridge?.gd) return;
    for (const axis of ["x", "y"]) for (const tick of ticksOf(bridge, "q", axis)) tick.style.visibility = "";
    writeEnds(bridge, null);
  }

  drawCells(panel, { live, gd, meta }) {
    const plot = gd.querySelector(`.subplot.${subplotOf(meta, panel.name)}`);
    const picture = plot?.querySelector(".im image") ?? plot?.querySelector(".hm image");
    if (!picture) return;
    const values = shownIn(live, panel.name);
    const box = live.stays ? boxOfCells(panel, live) : undefined;
    this.drawValues(values, live, live.scales[panel.name], panel, picture, box);
  }

  drawBorders(panel, { live, gd, meta }, colours) {
    const number = meta.panels.indexOf(panel.name);
    // Those of plotly's would show through at the edges too.
    for (const line of gd.querySelectorAll(".shapelayer [data-index]"))
      if (meta.shapes?.[line.dataset.index] === number) this.hide(line);
    const { rows, cols, blockOf } = live;
    if (!blockOf) return;
    this.drawAmongCells(panel, live, (context, across, down) => {
      for (let col = 1; col < cols; col++) {
        if (!differs(blockOf, rows, cols, 0, col)) continue;
        context.moveTo(across(col), down(0));
        context.lineTo(across(col), down(rows));
      }
      for (let row = 1; row < rows; row++) {
        if (!differs(blockOf, rows, cols, row, 0)) continue;
        context.moveTo(across(0), down(row));
        context.lineTo(across(cols), down(row));
      }
      context.strokeStyle = colours.border;
      context.lineWidth = 1;
      context.stroke();
    });
  }

  // The scales beside the codes or below them: plotly has those of the server's blocks.
  drawEdges(panel, bridge, colours) {
    const { edge } = bridge.live;
    if (edge === undefined) return;
    const taken = { right: "y", bottom: "x" }[edge?.size && edge.side];
    for (const axis of ["x", "y"]) {
      const scaled = bridge.gd._fullLayout[`${axis}axis${numberOf(bridge.meta, "q")}`].tickmode === "array";
      for (const tick of ticksOf(bridge, "q", axis))
        tick.style.visibility = scaled || taken === axis ? "hidden" : "";
      if (scaled && taken !== axis) this.drawNumbers(panel, bridge, axis, colours);
    }
    if (!taken) return;
    const { context } = this;
    const below = taken === "x";
    const { wide, high } = cellSize(panel);
    context.font = `${edge.size}px ${colours.font}`;
    context.fillStyle = colours.muted;
    context.textAlign = below ? "center" : "left";
    edge.labels.forEach((label, i) => {
      const along = below ? (edge.places[i] - panel.x[0]) * wide : (edge.places[i] - panel.y[1]) * high;
      if (along < 0 || along > (below ? panel.width : panel.height)) return;
      if (below)
        context.fillText(label, panel.left + along, panel.top + panel.height + edge.size + GAP_BELOW);
      else
        context.fillText(label, panel.left + panel.width + GAP_BESIDE, panel.top + along + edge.size * 0.35);
    });
  }

  // The numbers of rows or columns, as the first panel has them, where plotly has scales in their place.
  drawNumbers(panel, { gd }, axis, colours) {
    const { xaxis, yaxis } = gd._fullLayout;
    if (axis === "y" && panel.left !== xaxis._offset) return;
    const { context } = this;
    context.fillStyle = colours.muted;
    for (const text of gd.querySelectorAll(`.${axis}tick text`)) {
      const [across, down] = /translate\(([-\d.e]+),([-\d.e]+)\)/
        .exec(text.getAttribute("transform"))
        .slice(1);
      context.font = `${text.style.fontSize} ${colours.font}`;
      context.textAlign = { start: "left", middle: "center", end: "right" }[text.getAttribute("text-anchor")];
      const left = panel.left - xaxis._offset + Number(text.getAttribute("x")) + Number(across);
      const top = panel.top - yaxis._offset + Number(text.getAttribute("y")) + Number(down);
      context.fillText(text.textContent, left, top);
    }
  }

  // Draw only inside a panel whose cells are large enough; `draw` gets where rows and columns begin.
  drawAmongCells(panel, { top, left }, draw) {
    const { context } = this;
    const { wide, high } = cellSize(panel);
    if (Math.min(wide, high) < 5) return;
    context.save();
    clipTo(context, panel);
    context.beginPath();
    const across = (col) => panel.left + (left + col - 0.5 - panel.x[0]) * wide;
    const down = (row) => panel.top + (top + row - 0.5 - panel.y[1]) * high;
    draw(context, across, down, wide, high);
    context.restore();
  }

  // A frame around each cell that pays for the value that is dragged.
  drawPaying(panel, live, colours) {
    const { rows, cols, paying } = live;
    if (!paying) return;
    this.drawAmongCells(panel, live, (context, across, down, wide, high) => {
      for (let cell = 0; cell < rows * cols; cell++) {
        if (!paying[cell]) continue;
        const [x, y] = [across(cell % cols), down(Math.floor(cell / cols))];
        context.rect(x + 1.5, y + 1.5, wide - 3, high - 3);
      }
      context.strokeStyle = colours.text;
      context.lineWidth = 1.5;
      context.stroke();
    });
  }

  print({ scale, size, labels }, colours) {
    const { context } = this;
    context.font = `${size.toFixed(1)}px ${colours.font}`;
    context.textAlign = "center";
    for (const ink of INKS) {
      context.fillStyle = ink;
      for (const { x, y, value, label } of labels)
        if (inkFor(scale, value) === ink) context.fillText(label, x, y + size * 0.35);
    }
  }
}

// Where all cells lie, of which plotly has cut off what a zoom has moved out of sight.
function boxOfCells(panel, { row_edges: rows, col_edges: cols }) {
  const { wide, high } = cellSize(panel);
  return {
    left: panel.left + (cols[0] - 0.5 - panel.x[0]) * wide,
    top: panel.top + (rows[0] - 0.5 - panel.y[1]) * high,
    width: (cols.at(-1) - cols[0]) * wide,
    height: (rows.at(-1) - rows[0]) * high,
  };
}

// Whether some block ends left of a column, or above a row.
function differs(blockOf, rows, cols, row, col) {
  if (col) {
    for (let i = 0; i < rows; i++) if (blockOf[i * cols + col] !== blockOf[i * cols + col - 1]) return true;
  } else {
    for (let i = 0; i < cols; i++) if (blockOf[row * cols + i] !== blockOf[(row - 1) * cols + i]) return true;
  }
  return false;
}

// The number of a panel in plotly's names, as in "x2y2".
function numberOf(meta, name) {
  const index = meta?.panels.indexOf(name) ?? 0;
  return index ? index + 1 : "";
}

function subplotOf(meta, name) {
  const n = numberOf(meta, name);
  return `x${n}y${n}`;
}

// The labels that plotly drew along one of a panel's axes.
function ticksOf({ gd, meta }, name, axis) {
  return gd.querySelectorAll(`.${axis}${numberOf(meta, name)}tick`);
}

// What plotly drew of the texts that are written over.
const DRAWN = new WeakMap();

// Write the title of the codes, `{ text, size }`; null brings back what plotly drew.
export function writeTitle({ gd }, title) {
  const index = gd._fullLayout?.annotations?.findIndex(({ name }) => name === "q");
  writeOver(gd.querySelector(`.annotation[data-index="${index}"] .annotation-text`), title);
}

// The same of the labels at the ends of the error's colour bar, `{ text, width }` each.
export function writeErrorEnds(bridge, labels) {
  const nodes = endNodes(bridge, "error");
  labels.forEach((label, last) => writeOver(nodes[last], label && labelAtEnd(bridge, "error", label, last)));
}

// Write the ends of the colours of the codes; null brings back what plotly drew.
function writeEnds(bridge, live) {
  const nodes = endNodes(bridge, "q");
  if (!bridge.meta?.panels.includes("q") || nodes.length !== 2) return;
  const ends = live && live.scales.q && [live.scales.q.lo, live.scales.q.hi];
  nodes.forEach((node, last) => {
    if (!ends) return writeOver(node, null);
    const text = significant(ends[last], 3, live.writing);
    const label = { text, width: textWidth(text, parseFloat(node.style.fontSize)) };
    writeOver(node, labelAtEnd(bridge, "q", label, last));
  });
}

// The two labels that plotly drew at a panel's colour bar.
function endNodes({ gd, meta }, name) {
  return gd.querySelectorAll(`.xcbcoloraxis${numberOf(meta, name)}tick text`);
}

// A label at one end of a panel's colour bar. Plotly centres its labels: they begin and end with the bar,
// which has whole pixels.
function labelAtEnd({ gd, meta }, name, { text, width }, last) {
  const axis = gd._fullLayout[`xaxis${numberOf(meta, name)}`];
  const middle = last ? axis._offset + Math.round(axis._length) - width / 2 : axis._offset + width / 2;
  return { text, place: `translate(${middle},0)` };
}

function writeOver(node, words) {
  if (!node) return;
  const { textContent, style } = node;
  if (!DRAWN.has(node))
    DRAWN.set(node, { text: textContent, size: style.fontSize, place: node.getAttribute("transform") });
  const drawn = DRAWN.get(node);
  const { text, size, place } = words ?? drawn;
  // Another text in the same node: who watches the page for new elements need not look.
  if (textContent !== text) node.firstChild.nodeValue = text;
  style.fontSize = words && size ? `${size}px` : drawn.size;
  if (place && node.getAttribute("transform") !== place) node.setAttribute("transform", place);
}
