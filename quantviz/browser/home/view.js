// A picture of a toy's numbers on a canvas of the page.

export class View {
  constructor(canvas, writing) {
    Object.assign(this, { canvas, writing, context: canvas.getContext("2d") });
  }

  // Take the canvas' size on the page; false while it has none.
  fit() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    Object.assign(this, { width, height });
    return Boolean(width && height);
  }
}
