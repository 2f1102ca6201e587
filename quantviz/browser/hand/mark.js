// Where a learner expects what a drag is to find: on the axis a value, on a slider bits or a group's size.

// The number of a slider's stop, 0 for groups as large as the blocks are.
function stopsOf({ mark, bits, groups, variants }) {
  if (mark.on === "bits") return bits.map((variant) => Number(variants[variant].bits_label));
  return groups.map((variant) => variants[variant].size ?? 0);
}

// The mark as the ruler has it, with a stop's place in place of its number; null where there is none.
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
