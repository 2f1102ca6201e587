// A picture on a canvas: its numbers as greys or as colours of an error, with a frame around one of them.

import { sharpen } from "../page/canvas.js";
import { View } from "./view.js";

const GREYS = Uint32Array.from({ length: 256 }, (_, grey) => (0xff000000 | (grey * 0x010101)) >>> 0);

// Shades from a list of red, green and blue, as pixels.
export function shadesOf(bytes) {
  return Uint32Array.from({ length: bytes.length / 3 }, (_, i) => {
    const [red, green, blue] = bytes.subarray(3 * i, 3 * i + 3);
    return (0xff000000 | (blue << 16) | (green << 8) | red) >>> 0;
  });
}

export class PictureView extends View {
  constructor(canvas, writing) {
    super(canvas, writing);
    [this.cells, this.sharp] = [document.createElement("canvas"), document.createElement("canvas")];
  }

  // Take the canvas' size on the page; false while it has none.
  fit(rows, cols) {
    const { canvas } = this;
    if (!super.fit()) return false;
    const ratio = sharpen(canvas, this.width, this.height);
    const { width: across, height: down } = canvas;
    // The picture covers its frame; what does not fit is left out on both sides.
    const scale = Math.max(across / cols, down / rows);
    const [seenCols, seenRows] = [across / scale, down / scale];
    const [left, top] = [(cols - seenCols) / 2, (rows - seenRows) / 2];
    Object.assign(this, { rows, cols, ratio, scale, left, top, seenCols, seenRows });
    return true;
  }

  // Draw values between two ends, in so many shades.
  paint(values, lo, hi, shades = GREYS) {
    const { rows, cols, cells, sharp, context, canvas } = this;
    if (cells.width !== cols || cells.height !== rows) {
      Object.assign(cells, { width: cols, height: rows });
      this.brush = cells.getContext("2d");
      this.image = this.brush.createImageData(cols, rows);
      this.pixels = new Uint32Array(this.image.data.buffer);
    }
    const [last, factor] = [shades.length - 1, (shades.length - 1) / (hi - lo)];
    for (let i = 0; i < values.length; i++) {
      const at = Math.round((values[i] - lo) * factor);
      this.pixels[i] = shades[at < 0 ? 0 : at > last ? last : at];
    }
    this.brush.putImageData(this.image, 0, 0);
    // First to whole pixels, then to the frame: every cell has the same size and a sharp edge.
    const times = Math.ceil(this.scale);
    if (sharp.width !== cols * times || sharp.height !== rows * times)
      Object.assign(sharp, { width: cols * times, height: rows * times });
    const enlarge = sharp.getContext("2d");
    enlarge.imageSmoothingEnabled = false;
    enlarge.drawImage(cells, 0, 0, sharp.width, sharp.height);
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.imageSmoothingEnabled = true;
    const seen = [this.left, this.top, this.seenCols, this.seenRows].map((each) => each * times);
    context.drawImage(sharp, ...seen, 0, 0, canvas.width, canvas.height);
  }

  // Frame a cell, so that it is found on any grey.
  mark(at, color) {
    const { context, ratio, scale, cols } = this;
    const x = ((at % cols) + 0.5 - this.left) * scale;
    const y = (Math.floor(at / cols) + 0.5 - this.top) * scale;
    const half = Math.max(9 * ratio, scale / 2 + 2 * ratio);
    for (const [line, width] of [
      ["rgba(0, 0, 0, 0.5)", 4],
      [color, 2.5],
    ]) {
      context.strokeStyle = line;
      context.lineWidth = width * ratio;
      context.strokeRect(x - half, y - half, 2 * half, 2 * half);
    }
  }

  // The cell under a place on the canvas.
  cellAt(x, y) {
    const { ratio, scale, rows, cols } = this;
    const clamped = (value, most) => Math.min(Math.max(Math.floor(value), 0), most - 1);
    const col = clamped((x * ratio) / scale + this.left, cols);
    return clamped((y * ratio) / scale + this.top, rows) * cols + col;
  }
}
