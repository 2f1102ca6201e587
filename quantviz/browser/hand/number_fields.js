// Numbers that are typed: the place of a cell, and those of a calibration, such as the ends of a range.
// Streamlit takes them when Enter is pressed or the field is left; then a browser tells of a change.

import { SHARED } from "../page/component.js";

// What else changes a cell's place: its fields are small, and have no buttons.
const STEPS = ["ArrowUp", "ArrowDown"];

// Answer an event in a field of numbers, as Streamlit has it once the page has changed.
export function hearNumbers({ type, key, target }) {
  const { controls } = SHARED;
  if (!controls || !target.closest || (type !== "change" && !STEPS.includes(key))) return;
  const [bridge, hand] = [SHARED.bridges, SHARED.hands].map((table) => table.get(controls.chart));
  if (!bridge || !hand) return;
  if (target.closest(".st-key-cell_inputs"))
    return requestAnimationFrame(() => placeIn() && bridge.select(placeIn()));
  if (type === "change") calibrate(hand, target, controls.calibration);
}

// The row and the column in the fields of a cell's place; null where a field is not there or empty.
function placeIn() {
  const fields = ["row", "col"].map((name) => document.querySelector(`.st-key-cell_${name} input`)?.value);
  return fields.every(Boolean) ? fields.map(Number) : null;
}

// What is typed is read before Streamlit writes it in its own way, with fewer digits.
function calibrate(hand, field, { id, numbers }) {
  const name = Object.keys(numbers).find((each) => field.closest(`.st-key-range_${each}`));
  const typed = parseFloat(field.value);
  if (!name || Number.isNaN(typed) || typed === numbers[name]) return;
  // The next number that is typed is another one beside this.
  numbers[name] = typed;
  requestAnimationFrame(() => hand.pageChoice.calibrate(id, { ...numbers }));
}
