// Drawing on a canvas.

// Give `canvas` as many pixels as `width` and `height` have on the screen, `enlarge` times; setting them anew
// would clear it. Returns how many pixels of the screen one of the page has.
export function sharpen(canvas, width, height, enlarge = 1) {
  const ratio = (window.devicePixelRatio || 1) * enlarge;
  const [across, down] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== across || canvas.height !== down)
    Object.assign(canvas, { width: across, height: down });
  return ratio;
}

// The context of `canvas`, sharp and empty, in CSS pixels.
export function emptied(canvas, width, height) {
  const ratio = sharpen(canvas, width, height);
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

// Place a picture over another one, out of the way of the pointer and of a screen reader.
export function layOver(node) {
  node.setAttribute("aria-hidden", "true");
  node.style.cssText = "position: absolute; left: 0; top: 0; pointer-events: none;";
}

// A disc of the colour `fill`, and a line around it where it has a colour.
export function paintDisc(context, x, y, radius, fill, line = null, width = 1.5) {
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  context.fillStyle = fill;
  context.fill();
  if (!line) return;
  context.strokeStyle = line;
  context.lineWidth = width;
  context.stroke();
}

// A line through places, each an x and a y.
export function paintLine(context, places, color, width) {
  context.strokeStyle = color;
  context.lineWidth = width;
  context.beginPath();
  for (const [x, y] of places) context.lineTo(x, y);
  context.stroke();
}

// A triangle at each of `places`, which have an `x`, from its foot to its tip; `halfOf` is half its width.
export function paintTeeth(context, places, halfOf, [foot, tip], color) {
  context.fillStyle = color;
  context.beginPath();
  for (const place of places) {
    const half = halfOf(place);
    context.moveTo(place.x - half, foot);
    context.lineTo(place.x, tip);
    context.lineTo(place.x + half, foot);
  }
  context.fill();
}
