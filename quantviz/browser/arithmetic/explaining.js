// How one cell came to its code: the numbers of Python's `Explanation` that its sentence tells, made by the
// arithmetic that Python wrote.

import { isShort } from "./blocks.js";
import { absmaxOf } from "./quantizing.js";
import { extremesOf } from "./statistics.js";

/** Return the cell at `place` of a result of `quantizeTensor`, explained. */
export function explainCell({ parts, facts }, result, layout, place) {
  const b = result.block[place];
  const x = result.x[place];
  const run = (result.given && parts.steps_given) || parts.steps;
  const steps = run(x, place, result.params, b);
  const code = result.q[place];
  return {
    x,
    x_hat: result.x_hat[place],
    error: result.error[place],
    local_step: result.step[place],
    code,
    value: facts.kind === "integer" ? code : parts.unscaled(code).value,
    zero_point: result.params.zero_point[b],
    cause: causeOf(result, place),
    steps,
    rounding: roundingOf(steps, parts.around, facts.ties),
    around: parts.around,
    clamped: clampedZeroPoint({ parts }, result, layout, b),
    integer: facts.kind === "integer",
    widths: facts.widths,
  };
}

/** Return a cell's outcome, one of `CAUSES` of Python. */
function causeOf({ x, x_hat, error, clipped, counted }, place) {
  if (counted && !counted[place]) return "left_out";
  if (clipped[place]) return "clipped";
  if (x[place] !== 0 && x_hat[place] === 0) return "zeroed";
  return error[place] === 0 ? "exact" : "rounded";
}

/** Return the last rounding among the steps, with the grid's values around, as Python's `Rounding`. */
function roundingOf(steps, around, rule) {
  const { read, made: output } = steps.findLast(({ key }) => key.startsWith("round"));
  const { y } = read;
  const { below, above, share } = around(y);
  const tie = share === 0.5;
  const nearer = nearerOf(y, below, above, tie, share);
  const nearest = { below: [below], above: [above] }[nearer] ?? [below, above];
  return { y, below, above, tie, output, rule, nearer, to_the_nearest: nearest.includes(output) };
}

function nearerOf(y, below, above, tie, share) {
  if (!Number.isFinite(y)) return "none";
  if (below === above) return "same";
  if (tie) return "tie";
  return share < 0.5 ? "below" : "above";
}

/** Return the zero point that a block would have without the limits of the codes; null where it has it. */
function clampedZeroPoint({ parts }, { x, counted, given, blocks }, layout, b) {
  if (given || !parts.clamped) return null;
  const extreme = extremesOf(x, counted, layout)[b];
  const found = parts.clamped(blocks.lo[b], blocks.hi[b], extreme, absmaxOf(x), isShort(layout, b));
  const same = found.before === found.after && Object.is(found.before, found.after);
  return same ? null : found.before;
}
