// Numbers as the ruler writes and steps them. Pure functions.

const MINUS = "−";

// The power of ten at or below `size`: what a hand or a key moves by on an axis.
export function powerOfTen(size) {
  return size > 0 && Number.isFinite(size) ? 10 ** Math.floor(Math.log10(size)) : 1;
}

// The multiple of `unit` next to `value`, without the float's last digits: 0.3, not 0.30000000000000004.
export function toUnit(value, unit) {
  return Number((Math.round(value / unit) * unit).toPrecision(12));
}

// A number alone: at most so many significant digits, without needless zeros.
export function written(value, digits = 4) {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "NaN" : value > 0 ? "∞" : `${MINUS}∞`;
  const rounded = Number(value.toPrecision(digits));
  const plain = rounded === 0 || (Math.abs(rounded) >= 1e-4 && Math.abs(rounded) < 1e6);
  const text = plain ? String(rounded === 0 ? 0 : rounded) : rounded.toExponential().replace("e+", "e");
  return text.replaceAll("-", MINUS);
}

// A number among others that lie `gap` apart: all with the same decimals, three digits of the gap.
export function writtenAmong(value, gap) {
  const decimals = 2 - Math.floor(Math.log10(gap));
  if (!(gap > 0) || !Number.isFinite(gap) || decimals > 8 || decimals < -6 || Math.abs(value) >= 1e7)
    return written(value, 3);
  if (Math.abs(value) < gap * 1e-6) return "0";
  return value.toFixed(Math.max(0, decimals)).replace("-", MINUS);
}

// Numbers that lie `gap` apart, without the zeros that all of them end in.
export function writtenAlike(values, gap) {
  let texts = values.map((value) => writtenAmong(value, gap));
  const bare = (text) => text === "0" || !text.includes(".");
  while (!texts.every(bare) && texts.every((text) => bare(text) || /[.0]$/.test(text)))
    texts = texts.map((text) => (bare(text) ? text : text.slice(0, -1)));
  return texts;
}

// Fill the places of a sentence: "{count} clipped".
export function filled(words, places) {
  return (words ?? "").replace(/\{(\w+)\}/g, (_, name) => places[name] ?? "");
}
