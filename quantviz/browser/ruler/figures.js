// Numbers as the ruler writes and steps them, by the server's `WRITING`. Pure functions.

import { numberText, significant } from "../panels/numbers.js";

// The power of ten at or below `size`: what a hand or a key moves by on an axis.
export function powerOfTen(size) {
  return size > 0 && Number.isFinite(size) ? 10 ** Math.floor(Math.log10(size)) : 1;
}

// The multiple of `unit` next to `value`, without the float's last digits: 0.3, not 0.30000000000000004.
export function toUnit(value, unit) {
  return Number((Math.round(value / unit) * unit).toPrecision(12));
}

// A number among others that lie `gap` apart: all with the same decimals, three digits of the gap.
export function writtenAmong(value, gap, writing) {
  const decimals = 2 - Math.floor(Math.log10(gap));
  if (!(gap > 0) || !Number.isFinite(gap) || decimals > 8 || decimals < -6 || Math.abs(value) >= 1e7)
    return significant(value, 3, writing);
  if (Math.abs(value) < gap * 1e-6) return "0";
  return numberText(value, { decimals: Math.max(0, decimals), zero: true }, writing);
}

// Numbers that lie `gap` apart, without the zeros that all of them end in.
export function writtenAlike(values, gap, writing) {
  let texts = values.map((value) => writtenAmong(value, gap, writing));
  const bare = (text) => text === "0" || !text.includes(".");
  while (!texts.every(bare) && texts.every((text) => bare(text) || /[.0]$/.test(text)))
    texts = texts.map((text) => (bare(text) ? text : text.slice(0, -1)));
  return texts;
}

// Fill the places of a sentence: "{count} clipped".
export function filled(words, places) {
  return (words ?? "").replace(/\{(\w+)\}/g, (_, name) => places[name] ?? "");
}
