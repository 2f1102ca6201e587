// Numbers and places as text. Pure functions.

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
  const place = [];
  for (let axis = grid.length - 1; axis >= 0; axis--) {
    if (grid[axis] > 1) place.unshift(number % grid[axis]);
    number = Math.floor(number / grid[axis]);
  }
  return place.join(", ");
}

// `count` places from `first` on: "3" or "3–7".
export function span(first, count) {
  return count === 1 ? String(first) : `${first}–${first + count - 1}`;
}

// A number to so many significant digits. `writing` is the server's `WRITING`, so that both write a number
// alike.
export function significant(value, digits, writing) {
  if (Number.isNaN(value)) return writing.nan;
  if (!Number.isFinite(value)) return (value > 0 ? "" : writing.minus) + writing.infinite;
  const rounded =
    Number.isInteger(value) && Math.abs(value) < writing.most ? value : roundedTo(value, digits);
  const plain = rounded === 0 || (Math.abs(rounded) >= writing.least && Math.abs(rounded) < writing.most);
  return signed(plain ? String(rounded) : rounded.toExponential(), writing);
}

// Round a tie to the even digit, as the server does; `toPrecision` would round it away from 0.
function roundedTo(value, digits) {
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

// Ways to write a number, longest first: with fewer digits, then without the 0 before the point, then as a
// power of ten.
export function shortenings(value, digits, writing) {
  const texts = digits.map((count) => significant(value, count, writing));
  if (!Number.isFinite(value) || digits.at(-1) > 2) return texts;
  return [
    ...texts,
    ...texts.map((text) => text.replace(/^(\D?)0\./, "$1.")),
    signed(value.toExponential(0), writing),
  ];
}
