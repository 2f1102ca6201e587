// The bell curve behind the dots: a normal density of the values' mean and deviation. What is clipped has the
// colour of clipping.

import { paintLine } from "../page/canvas.js";
import { clippedBeyond } from "./limits.js";

export function paintBell(ruling) {
  const { picture, context, axis, bands, colors } = ruling;
  const { mean, deviation } = picture.bell ?? {};
  if (!(deviation > 0)) return;
  const height = bands.tips - bands.top - 10;
  const heightAt = (x) => {
    const away = (axis.lo + (x - axis.left) / axis.perValue - mean) / deviation;
    return height * Math.exp((-away * away) / 2);
  };
  const { lo, hi } = clippedBeyond(picture);
  const fill = (from, to, color, alpha) => {
    if (!(to > from)) return;
    context.beginPath();
    context.moveTo(from, bands.tips);
    for (let x = from; x < to; x += 2) context.lineTo(x, bands.tips - heightAt(x));
    context.lineTo(to, bands.tips - heightAt(to));
    context.lineTo(to, bands.tips);
    context.closePath();
    context.globalAlpha = alpha;
    context.fillStyle = color;
    context.fill();
    context.globalAlpha = 1;
  };
  const [left, right] = [axis.inside(lo), axis.inside(hi)];
  fill(left, right, colors.handle, 0.1);
  fill(axis.left, left, colors.clipping, 0.5);
  fill(right, axis.right, colors.clipping, 0.5);
  const edge = [];
  for (let x = axis.left; x <= axis.right; x += 2) edge.push([x, bands.tips - heightAt(x)]);
  paintLine(context, edge, colors.muted, 1.25);
}
