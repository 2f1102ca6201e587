// Numbers and places as text. Pure functions.

import { indexIn } from "../page/index_in.js";

// A code's bits in groups of the given widths, for sign, exponent and mantissa: "0 1111 010".
export function bitsOf(code, widths) {
  const bits = code.toString(2).padStart(
    widths.reduce((sum, width) => sum + width, 0),
    "0",
  );
  let from = 0;
  return widths
    .map((width) => bits.slice(from, (from += width)))
    .filter(Boolean)
    .join(" ");
}

// A block's place in the grid, without axes that hold only one block: "3" or "3, 1".
export function blockPlace(number, grid) {
  return indexIn(grid, number)
    .filter((_, axis) => grid[axis] > 1)
    .join(", ");
}

// `count` places from `first` on: "3" or "3–7".
export function span(first, count) {
  return count === 1 ? String(first) : `${first}–${first + count - 1}`;
}

// A number to so many significant digits. `writing` is the server's `WRITING`, so that both write a number
// alike.
export function significant(value, digits, writing) {
  if (!Number.isFinite(value)) return strange(value, writing);
  const rounded =
    Number.isInteger(value) && Math.abs(value) < writing.most ? value : roundedTo(value, digits);
  const plain = rounded === 0 || (Math.abs(rounded) >= writing.least && Math.abs(rounded) < writing.most);
  return signed(plain ? String(rounded) : rounded.toExponential(), writing);
}

// A number to so many significant digits, by a power of ten where it has more of them before the point: the
// server's `number` gives the same. `plus` stands before a positive one.
export function plainNumber(value, digits, writing, plus = "") {
  if (Number.isNaN(value)) return writing.none;
  if (!Number.isFinite(value)) return strange(value, writing);
  const rounded = roundedTo(value, digits);
  const power = powerIn(rounded);
  const plain = rounded === 0 || (Math.abs(rounded) >= writing.least && power < digits);
  return (value > 0 ? plus : "") + signed(plain ? String(rounded) : rounded.toExponential(), writing);
}

// How many significant digits tell `value` from its neighbours `step` away, at least 4: the server's
// `digits_for` gives the same.
export function digitsFor(value, step) {
  const size = Math.abs(step);
  if (value === 0 || !Number.isFinite(value) || !(size > 0 && size < Infinity)) return 4;
  return Math.min(9, Math.max(4, powerIn(value) - powerIn(size) + 2));
}

// The power of ten of a number's first digit.
function powerIn(value) {
  return Number(value.toExponential().split("e")[1]);
}

function strange(value, writing) {
  if (Number.isNaN(value)) return writing.nan;
  return (value > 0 ? "" : writing.minus) + writing.infinite;
}

// Round a tie to the even digit, as the server does; `toPrecision` would round it away from 0.
export function roundedTo(value, digits) {
  // A tie has one digit more and no others: most values need no look at all their digits.
  if (Number(value.toPrecision(digits + 1)) !== value) return Number(value.toPrecision(digits));
  const [mantissa, exponent] = Math.abs(value).toExponential(60).split("e");
  const figures = mantissa.replace(".", "");
  const down = /^50*$/.test(figures.slice(digits)) && Number(figures[digits - 1]) % 2 === 0;
  return down
    ? Math.sign(value) * Number(`${figures.slice(0, digits)}e${exponent - digits + 1}`)
    : Number(value.toPrecision(digits));
}

function signed(text, writing) {
  return text.replace("e+", "e").replaceAll("-", writing.minus);
}

// A number as all values of a panel are printed, in one of the server's styles; the server's `printed` gives
// the same.
export function numberText(value, { decimals, zero, power }, writing) {
  if (!Number.isFinite(value)) return strange(value, writing);
  if (power)
    return value === 0 ? "0" : signed(roundedTo(value, decimals + 1).toExponential(decimals), writing);
  const shown = fixed(Math.abs(value), decimals);
  const sign = value < 0 && Number(shown) !== 0 ? writing.minus : "";
  return sign + (zero ? shown : shown.replace(/^0\./, "."));
}

// A positive number to so many decimals; a tie goes to the even digit.
function fixed(value, decimals) {
  const halves = 2 * value * 10 ** decimals;
  // No tie: most values need no look at all their digits.
  if (Math.abs(halves - Math.round(halves)) > 1e-3) return value.toFixed(decimals);
  const [whole, rest] = value.toFixed(60).split(".");
  const down =
    /^50*$/.test(rest.slice(decimals)) && Number((whole + rest)[whole.length + decimals - 1]) % 2 === 0;
  if (!down) return value.toFixed(decimals);
  return decimals ? `${whole}.${rest.slice(0, decimals)}` : whole;
}

// How wide a printed value is for the size of its font: digits are all of one width.
export function ems(text, writing) {
  return [...text].reduce((sum, each) => sum + (each === "." ? writing.point : writing.digit), 0);
}

// About how many pixels a text takes in a font of `size`: the server's `text_width` gives the same.
export function textWidth(words, size) {
  return size * [...words].reduce((sum, each) => sum + emOf(each), 0);
}

function emOf(character) {
  if (/\p{M}/u.test(character)) return 0;
  if (character > "\u2e7f") return 1;
  if (" .,:|'·il()".includes(character)) return 0.25;
  return "mwMW%".includes(character) ? 0.8 : 0.5;
}
