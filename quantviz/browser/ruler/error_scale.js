// How high an error stands on the curve: in proportion, or in decibels above the least.

import { WEIGHTS } from "./weights.js";
import { filled } from "./figures.js";

// The height shows so many times the largest rounding error: the clipping of a range near 0 is many times
// larger, and runs off the top.
const MOST_OF_ROUNDING = 3;
// Decibels below the least error in which its smaller part is still seen, and above it at least and at most:
// the clipping of a narrow range runs off the top.
const DB_BELOW = 6;
const LEAST_DB = 6;
const MOST_DB = 20;
// Steps of the axis in decibels, and pixels between two of its numbers at least.
const DB_STEPS = [1, 2, 5, 10];
const DB_APART = 30;

// `yOf` gives the height of an error in pixels from `base` upwards; `key` changes with the scale.
export function linear(both, rounding, base, top) {
  const all = largest(both);
  const rounded = largest(rounding);
  const perError = (base - top) / (Math.min(all, rounded ? MOST_OF_ROUNDING * rounded : all) || 1);
  return { key: `${base} ${perError}`, yOf: (error) => base - error * perError };
}

// The same in decibels above the least error; an error of 0 stands at the foot.
export function decibels(both, base, top) {
  const least = both.reduce((found, error) => (error > 0 ? Math.min(found, error) : found), Infinity);
  const most = Number.isFinite(least) ? decibelsAbove(largest(both), least) : 0;
  const above = Math.min(Math.max(most, LEAST_DB), MOST_DB);
  const perDecibel = (base - top) / (above + DB_BELOW);
  const yAt = (db) => base - Math.max(db + DB_BELOW, 0) * perDecibel;
  return {
    key: `${base} ${perDecibel} ${least}`,
    yOf: (error) => (error > 0 && Number.isFinite(least) ? yAt(decibelsAbove(error, least)) : base),
    yAt,
    above,
    perDecibel,
  };
}

const largest = (errors) => errors.reduce((most, error) => Math.max(most, error), 0);
const decibelsAbove = (error, least) => 10 * Math.log10(error / least);

// Lines across the curve with their numbers at its left, and what they count.
export function paintDecibels(ruling, { yAt, above, perDecibel }) {
  const { context, axis, bands, colors, words, picture } = ruling;
  const step = DB_STEPS.find((each) => each * perDecibel >= DB_APART) ?? DB_STEPS.at(-1);
  context.fillStyle = colors.line;
  for (let db = 0; db <= above; db += step) {
    const y = yAt(db);
    context.globalAlpha = 0.6;
    context.fillRect(axis.left - 14, Math.round(y), axis.right - axis.left + 28, 1);
    context.globalAlpha = 1;
    const text = `${db ? "+" : ""}${ruling.written(db, 2)} dB`;
    ruling.ask(WEIGHTS.scale, () => {
      ruling.fontOf();
      ruling.labelWhereFree(text, 3, y + 4, colors.muted);
    });
  }
  const name = picture.curve.estimated ? words.curve_estimated_db : words.curve_db;
  ruling.ask(WEIGHTS.title, () => {
    ruling.fontOf();
    const places = [14, 29, 44].map((y) => [axis.left + 28, bands.curve + y, "left"]);
    if (!bands.narrow) ruling.labelInOneOf(filled(name, {}), places, colors.muted);
  });
}
