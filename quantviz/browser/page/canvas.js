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
