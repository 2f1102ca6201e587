// The functions that a scheme's lines name and `Math` has not: rounding to other floats, and their bits.

const ROOM = new ArrayBuffer(8);
const DOUBLE = new Float64Array(ROOM);
const SINGLE = new Float32Array(ROOM);
// The lower and the upper half of a double, on machines that write the lower one first, as all that browsers
// run on do.
const HALVES = new Int32Array(ROOM);

// From here on a double has no digits behind the point.
const WHOLE = 2 ** 52;

/** Round to the nearest whole number, half to even; -0 stays -0. */
function rint(x) {
  if (x > 0) return x < WHOLE ? x + WHOLE - WHOLE : x;
  // A small negative number becomes -0.
  return x < 0 && x > -WHOLE ? -(WHOLE - x - WHOLE) : x;
}

function copysign(size, sign) {
  const negative = sign < 0 || (sign === 0 && 1 / sign < 0);
  const magnitude = Math.abs(size);
  return negative ? -magnitude : magnitude;
}

/** Return x · y + z of float32, rounded once: the sum, rounded to odd, can be rounded as if it were exact. */
function fusedSum(x, y, z) {
  const product = x * y;
  const total = product + z;
  const back = total - product;
  const lost = product - (total - back) + (z - back);
  if (lost === 0 || !(Math.abs(total) < Infinity)) return Math.fround(total);
  DOUBLE[0] = total;
  if ((HALVES[0] & 1) === 0) {
    if (lost > 0 !== total > 0) {
      // One below an even number borrows where its lower half is 0.
      HALVES[1] -= HALVES[0] === 0 ? 1 : 0;
      HALVES[0] -= 1;
    } else {
      HALVES[0] |= 1;
    }
  }
  return Math.fround(DOUBLE[0]);
}

/** Round a float32 to bfloat16, half to even. */
function toBrain(x) {
  if (x !== x) return x;
  SINGLE[0] = x;
  const raw = HALVES[0];
  HALVES[0] = (raw + 0x7fff + ((raw >> 16) & 1)) & -65536;
  return SINGLE[0];
}

/** Return 2^n of a whole number, also where that is subnormal. */
function twoTo(n) {
  if (n >= -1022 && n <= 1023) {
    HALVES[0] = 0;
    HALVES[1] = (n + 1023) << 20;
    return DOUBLE[0];
  }
  return n !== n ? n : 2 ** n;
}

/** Return the exponent that frexp gives: x is m · 2^e with 0.5 ≤ |m| < 1; 0 for 0, Inf and NaN. */
function exponentOf(x) {
  DOUBLE[0] = x;
  const field = (HALVES[1] >> 20) & 0x7ff;
  if (field === 0x7ff || x === 0) return 0;
  // A subnormal double is made normal first.
  return field > 0 ? field - 1022 : exponentOf(x * 2 ** 54) - 54;
}

/** Return the value of a float format's code; `special` is how its codes of Inf and NaN lie. */
function floatOfCode(code, exponent, mantissa, bias, special, subnormal, signed) {
  const width = exponent + mantissa;
  const one = 1 << mantissa;
  const negative = signed && code >> width === 1;
  const magnitude = code & ((1 << width) - 1);
  const field = magnitude >> mantissa;
  const fraction = magnitude & (one - 1);
  const sign = negative ? -1 : 1;
  const full = field === (1 << exponent) - 1;
  if (special === 1 && full) return fraction ? NaN : sign * Infinity;
  if ((special === 2 && full && fraction === one - 1) || (special === 3 && negative && !magnitude)) {
    return NaN;
  }
  if (subnormal && field === 0) return sign * fraction * twoTo(1 - bias - mantissa);
  return sign * (one + fraction) * twoTo(field - bias - mantissa);
}

/** What the lines of every scheme can name. */
const toHalf = Math.f16round;
export const ROUNDING = { rint, copysign, fusedSum, toHalf, toBrain, twoTo, exponentOf, floatOfCode };
