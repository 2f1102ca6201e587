// A canvas as sharp as the screen. Pure but for the canvas.

// Give `canvas` as many pixels as `width` and `height` have on the screen; setting them anew would clear it.
// Returns how many pixels of the screen one of the page has.
export function sharpen(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  const [across, down] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== across || canvas.height !== down)
    Object.assign(canvas, { width: across, height: down });
  return ratio;
}
