// Numbers that are typed: the place of a cell, and those of a calibration, such as the ends of a range.
// Streamlit takes them when Enter is pressed or the field is left; then a browser tells of a change.

import { SHARED } from "../page/component.js";

// What else changes a cell's place: its fields are small, and have no buttons.
const STEPS = ["ArrowUp", "ArrowDown"];

// Answer an event in a field of numbers, as Streamlit has it once the page has changed.
export function hearNumbers({ type, key, target }) {
  const { controls } = SHARED;
  if (!controls || !target.closest || (type !== "change" && !STEPS.includes(key))) return;
  if (target.closest(".st-key-cell_inputs")) return requestAnimationFrame(selectPlace);
  if (type === "change") calibrate(target, controls.calibration);
}

function selectPlace() {
  const place = placeIn();
  const { chart } = SHARED.controls;
  if (place && SHARED.hands.has(chart)) SHARED.bridges.get(chart)?.select(place);
}

// The row and the column in the fields of a cell's place; null where a field is not there or empty.
function placeIn() {
  const fields = ["row", "col"].map(
    (name) => document.querySelector(`[data-field=cell_${name}] input`)?.value,
  );
  return fields.every(Boolean) ? fields.map(Number) : null;
}

// What is typed is read before Streamlit writes it in its own way, with fewer digits.
function calibrate(field, { id, numbers }) {
  const name = Object.keys(numbers).find((each) => field.closest(`[data-field=range_${each}]`));
  const typed = parseFloat(field.value);
  if (!name || Number.isNaN(typed) || typed === numbers[name]) return;
  // The next number that is typed is another one beside this.
  numbers[name] = typed;
  // By then the hand may be another one.
  requestAnimationFrame(() =>
    SHARED.hands.get(SHARED.controls.chart)?.pageChoice.calibrate(id, { ...numbers }),
  );
}
