// A canvas over plotly's heatmaps, which take several frames to be drawn anew.

import { emptied, layOver } from "../page/canvas.js";
import { colourCells } from "./colours.js";

export class Cover {
  constructor() {
    this.canvas = document.createElement("canvas");
    this.canvas.className = "qv-painting";
    layOver(this.canvas);
    this.context = this.canvas.getContext("2d");
    this.cells = document.createElement("canvas");
    this.cellsContext = this.cells.getContext("2d");
    this.covered = new Set();
  }

  // Begin a picture of the chart's size.
  begin({ width, height }) {
    const { a: ratio } = emptied(this.canvas, width, height).getTransform();
    // As large as its pixels are, or the page would draw them anew between its own.
    const [across, down] = [this.canvas.width / ratio, this.canvas.height / ratio];
    Object.assign(this.canvas.style, { width: `${across}px`, height: `${down}px` });
  }

  // Until the canvas is removed.
  hide(drawn) {
    drawn.style.visibility = "hidden";
    this.covered.add(drawn);
  }

  // Draw values, in rows, where plotly's own `picture` of them lies in a `part` of its chart, so that they do not
  // move when it comes; or in another `box` of the chart.
  drawValues(values, { rows, cols }, scale, part, picture, box = boxOfPicture(part, picture)) {
    if (this.cells.width !== cols || this.cells.height !== rows) {
      Object.assign(this.cells, { width: cols, height: rows });
      this.image = this.cellsContext.createImageData(cols, rows);
      this.pixels = new Uint32Array(this.image.data.buffer);
    }
    colourCells(values, scale, this.pixels);
    this.cellsContext.putImageData(this.image, 0, 0);
    // It would show through at the edges, which lie between two pixels.
    this.hide(picture);
    const { context } = this;
    const { left, top, width, height } = box;
    context.save();
    clipTo(context, part);
    clipTo(context, box);
    context.imageSmoothingEnabled = picture.style.imageRendering === "auto";
    const size = 1 / context.getTransform().a;
    for (const [line, at] of missedPixels(left, left + width, cols, size))
      context.drawImage(this.cells, line, 0, 1, rows, at, top, size, height);
    for (const [line, at] of missedPixels(top, top + height, rows, size))
      context.drawImage(this.cells, 0, line, cols, 1, left, at, width, size);
    context.drawImage(this.cells, left, top, width, height);
    context.restore();
  }

  remove() {
    this.canvas.remove();
    for (const drawn of this.covered) drawn.style.visibility = "";
    this.covered.clear();
  }
}

function boxOfPicture(part, picture) {
  const [x, y, width, height] = ["x", "y", "width", "height"].map((name) =>
    Number(picture.getAttribute(name)),
  );
  return { left: part.left + x, top: part.top + y, width, height };
}

export function clipTo(context, { left, top, width, height }) {
  context.beginPath();
  context.rect(left, top, width, height);
  context.clip();
}

// A canvas draws a pixel of a picture wholly or not at all, by the pixel's middle: those that an edge crosses
// before their middle, each with the line of cells that has a share in it.
function missedPixels(from, to, count, size) {
  const share = (edge) => edge / size - Math.floor(edge / size);
  const pixel = (edge) => Math.floor(edge / size) * size;
  const missed = [];
  if (share(from) >= 0.5) missed.push([0, pixel(from)]);
  if (share(to) > 0 && share(to) < 0.5) missed.push([count - 1, pixel(to)]);
  return missed;
}
