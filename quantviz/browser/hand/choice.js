// What a hand's message means: what is quantized while it moves, and what the server is told when it lets go.

import { indexIn } from "../page/index_in.js";
import { WAY } from "../page/number_drag.js";
import { same } from "../panels/geometry.js";
import { cellUnder } from "../panels/layout.js";

// What is chosen: the scheme (`variant`), a range or scale in place of what its calibration finds, and cells
// whose value was changed, `Map` of place → value.
export function unchanged(hand) {
  return { variant: hand.current, calibration: hand.set, edits: new Map() };
}

// The choice that a message asks for, from what is chosen before it; `shown` is the result of that.
export function chosenBy(message, before, hand, shown) {
  const { kind } = message;
  if (kind === "range")
    return { ...before, calibration: { id: "manual_range", lo: message.lo, hi: message.hi } };
  if (kind === "tooth" || kind === "zero") {
    const calibration = combMoved(message, hand, shown);
    const edits = hand.holds_codes ? valuesAlong(calibration, shown) : before.edits;
    return { ...before, calibration, edits };
  }
  if (kind === "value")
    return { ...before, edits: new Map(before.edits).set(shown.places[message.cell], message.value) };
  const list = kind === "bits" ? hand.bits : hand.groups;
  // Without a server a range that was set stays in the hand's data, not in the variants.
  const calibration = hand.set?.id === "manual_range" ? hand.set : null;
  return { ...before, variant: list[message.at], calibration };
}

// The values that all codes stand for on another comb.
function valuesAlong({ scale, zero_point }, { q }) {
  return new Map(Array.from(q, (code, place) => [place, Math.fround(scale * (code - zero_point))]));
}

// Scale and zero point of a comb of which one tooth was moved to `value`: the zero point's tooth moves them
// all, any other stretches them from there.
function combMoved({ kind, index, value }, hand, { levels, params, variant }) {
  const { scale } = params;
  const domain = variant.zero_domain;
  // A symmetric scheme has a zero point of its own, which is not set by hand.
  const zero_point = hand.symmetric ? 0 : params.zero_point;
  if (kind === "zero") {
    if (hand.symmetric) return { id: "given", scale, zero_point };
    const moved = domain === "code_int" || domain === "code_float" ? zero_point - value / scale : value;
    return { id: "given", scale, zero_point: nearestZero(moved, variant.zero_points) };
  }
  // How many scales the tooth stands from where the comb is fixed.
  const fixed = !hand.symmetric && domain.startsWith("value") ? zero_point : 0;
  const steps = (levels.values[index] - fixed) / scale;
  // Four digits are as exact as a hand is, and can be read.
  return { id: "given", scale: Number(((value - fixed) / steps).toPrecision(4)), zero_point };
}

// The nearest zero point that the scheme can have, as the server takes it: the picture and the server agree.
function nearestZero(wanted, limits) {
  if (!limits) return wanted;
  return Math.min(Math.max(Math.round(wanted), limits[0]), limits[1]);
}

// What the server is told of a choice when the hand lets go.
export function released(message, choice, hand, places) {
  const { kind } = message;
  const { calibration } = choice;
  if (kind === "range") return { kind, lo: calibration.lo, hi: calibration.hi };
  if (kind === "tooth" || kind === "zero")
    return { kind: "given", scale: calibration.scale, zero_point: calibration.zero_point };
  if (kind === "value") {
    const place = places[message.cell];
    return { kind: "cell", cell: indexIn(hand.shape, place), value: choice.edits.get(place) };
  }
  const variant = hand.variants[choice.variant];
  return kind === "bits" ? { kind: "format", id: variant.format } : { kind, size: variant.size };
}

// The number of a slider's stop, 0 for groups as large as the blocks are.
function stopsOf({ mark, bits, groups, variants }) {
  if (mark.on === "bits") return bits.map((variant) => Number(variants[variant].bits_label));
  return groups.map((variant) => variants[variant].size ?? 0);
}

// Where a learner expects what a drag is to find: on the axis a value, on a slider the place of a stop for
// bits or a group's size; null where there is no mark.
export function markOf(data) {
  const { mark } = data;
  if (!mark) return null;
  const at = mark.on === "axis" || mark.at === null ? mark.at : stopsOf(data).indexOf(mark.at);
  return { ...mark, at };
}

// What the server is told of a mark at `at`.
export function markedAt(at, data) {
  return data.mark.on === "axis" ? at : stopsOf(data)[at];
}

// What a pointer takes hold of on the selected cell of x's panel; null beside it.
export function grabbedCell(hand, event) {
  const { bridge, data, shown } = hand;
  if (!data.handles.value || !bridge?.gd || !bridge.container?.contains(event.target)) return null;
  if (event.target.closest?.(".modebar")) return null;
  const found = cellUnder(bridge, event.clientX, event.clientY);
  const index = shown.places.indexOf(data.selected);
  if (found?.panel !== "x" || !same(found.cell, bridge.selected) || index < 0) return null;
  const [lo, hi] = hand.domain;
  const message = (value) => ({ kind: "value", cell: index, value });
  return {
    from: shown.x[data.selected],
    step: (hi - lo) / WAY,
    move: (value) => hand.move(message(value)),
    release: (value) => hand.release(message(value)),
    giveUp: () => hand.giveUp(),
  };
}
