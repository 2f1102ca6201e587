// Moves of a hand on a page without a server: each leads to other data, as a state of `quantviz.lab.moves` does,
// and is written in the page's address.

import { indexIn } from "../page/index_in.js";

// The data after a move of `hand/choice.js`; `edits` are the values that went along with a zero point.
export function movedTo(data, message, edits) {
  const { kind } = message;
  if (kind === "cell") return withValues(data, [[flatOf(message.cell, data.shape), message.value]]);
  if (kind === "range") return { ...data, set: { id: "manual_range", lo: message.lo, hi: message.hi } };
  if (kind === "given")
    return { ...withValues(data, edits), set: { id: "given", ...numbersOf(message, NAMES.given) } };
  const { bits, groups, variants } = data;
  const [list, name, value] =
    kind === "format" ? [bits, "format", message.id] : [groups, "size", message.size];
  const chosen = list.find((at) => variants[at][name] === value);
  return under(data, data, chosen);
}

// The numbers of what a hand sets.
const NAMES = { manual_range: ["lo", "hi"], given: ["scale", "zero_point"] };

function numbersOf(parts, names) {
  return Object.fromEntries(names.map((name) => [name, parts[name]]));
}

// The same tensor under another variant. A range that was set by hand stays; a scale is for its own codes.
function under(data, saved, current) {
  const { bits, groups, symmetric, range_counts: ranged } = data.variants[current];
  const set = data.set?.id === "manual_range" && ranged ? data.set : null;
  const found = current === saved.searched ? saved.found : null;
  return { ...data, current, bits, groups, symmetric, set, found };
}

function withValues(data, edits) {
  const x = data.x.slice();
  for (const [place, value] of edits) x[place] = value;
  return { ...data, x };
}

export function flatOf(cell, shape) {
  const inside = cell.length === shape.length && cell.every((at, axis) => at >= 0 && at < shape[axis]);
  return inside ? cell.reduce((flat, at, axis) => flat * shape[axis] + at, 0) : NaN;
}

// The scheme in its text form, which `Scheme.parse` reads.
export function schemeOf({ variants, current, set }) {
  const { scheme, around } = variants[current];
  if (!set) return scheme;
  return `${around[0]}${set.id}(${NAMES[set.id].map((name) => `${name}=${set[name]}`)})${around[1]}`;
}

// The cells whose values are others than those `saved`, each with its value.
export function editsOf({ x, shape }, saved) {
  const changed = [...x.keys()].filter((flat) => !Object.is(x[flat], saved.x[flat]));
  return changed.map((flat) => [indexIn(shape, flat), x[flat]]);
}

// What was chosen, in the address' own part: the scheme and the cell as the Lab's link has them, and the values
// set by hand.
export function addressOf(data, saved) {
  const parts = { s: schemeOf(data), c: indexIn(data.shape, data.selected).join(".") };
  const edits = editsOf(data, saved);
  if (edits.length) parts.w = edits.map(([cell, value]) => `${cell.join(".")}=${value}`).join();
  return `${new URLSearchParams(parts)}`;
}

// The data that an address asks for; null for one that is damaged, or is of another page.
export function readAddress(saved, address) {
  const parts = new URLSearchParams(address);
  const chosen = withScheme(saved, parts.get("s"));
  const places = (form) => flatOf(form.split(".").map(Number), saved.shape);
  const edits = (parts.get("w") ?? "").split(",").filter(Boolean);
  const values = edits
    .map((each) => each.split("="))
    .map(([cell, value]) => [places(cell), parseFloat(value)]);
  const selected = parts.has("c") ? places(parts.get("c")) : saved.selected;
  const known = (flat) => flat in saved.x;
  if (!chosen || !known(selected) || !values.every(([at, value]) => known(at) && isFinite(value)))
    return null;
  if (values.length && !saved.handles.value && !saved.holds_codes) return null;
  return { ...withValues(chosen, values), selected };
}

export function withScheme(saved, form) {
  const { variants } = saved;
  const plain = form === null ? saved.current : variants.findIndex(({ scheme }) => scheme === form);
  if (plain >= 0) return under({ ...saved, set: null }, saved, plain);
  for (const [at, { around, range_counts: ranged }] of variants.entries()) {
    const [before, after] = around;
    if (!form.startsWith(before) || !form.endsWith(after)) continue;
    const set = calibrationOf(form.slice(before.length, form.length - after.length));
    if (set && (set.id === "given" || ranged)) return { ...under(saved, saved, at), set };
  }
  return null;
}

// A range or a scale that was set by hand, of its text form; null of another.
function calibrationOf(form) {
  const number = "([-+.\\de]+)";
  for (const [id, names] of Object.entries(NAMES)) {
    const found = new RegExp(`^${id}\\(${names.map((name) => `${name}=${number}`)}\\)$`).exec(form);
    const values = found?.slice(1).map(Number);
    if (values?.every(isFinite))
      return { id, ...Object.fromEntries(names.map((name, i) => [name, values[i]])) };
  }
  return null;
}
