// How the page's own controls look while the browser is ahead of the server.

import { SHARED } from "../page/component.js";
import { plainNumber } from "../panels/numbers.js";
import { filled } from "../ruler/figures.js";

// Where what is chosen is told in words: the range in the sidebar, and a note.
const TOLD = "summary strong, [data-testid=stAlertContainer] p";
// Digits of the numbers of a range.
const RANGE_DIGITS = 6;

// Have the controls show a scheme as they will once the server has answered; nothing without its variant.
export function showOnControls(variant) {
  if (!variant) return;
  const { fields } = SHARED.answers;
  const shown = Object.fromEntries(fields.map((field, at) => [field, variant.values[at]]));
  for (const bar of SHARED.bars) bar.preview(shown);
  for (const [key, words] of Object.entries(variant.told))
    tell(document.querySelector(`.st-key-${key}`), words);
}

// The range in the sidebar, told while a hand sets it: `range_words` of `sidebar.py` says the same, and its
// fields of numbers show the same.
export class ToldRange {
  constructor() {
    this.begin();
  }

  // What is told now is to be told again where the next range is given up.
  begin() {
    this.before = null;
    this.fields = new Map();
  }

  // Tell the range of a calibration that is set by hand; nothing of another.
  tell({ id, ...numbers }, writing) {
    const line = SHARED.answers?.calibration.lines[id];
    if (!line) return;
    const places = Object.entries(numbers).map(([name, value]) => [
      name,
      plainNumber(value, RANGE_DIGITS, writing),
    ]);
    const before = tell(rangeLine(), filled(line, Object.fromEntries(places)));
    this.before ??= before;
    for (const [name, value] of Object.entries(numbers)) {
      const field = document.querySelector(`[data-field=range_${name}] input`);
      if (!field) continue;
      if (!this.fields.has(field)) this.fields.set(field, field.value);
      field.value = Number(value.toPrecision(RANGE_DIGITS));
    }
  }

  // Tell what was told before.
  takeBack() {
    if (this.before !== null) tell(rangeLine(), this.before);
    for (const [field, before] of this.fields) field.value = before;
    this.begin();
  }
}

function rangeLine() {
  return document.querySelector(".st-key-range_expander");
}

// Write words where a part of the page tells what is chosen, and return those before; null without a place.
function tell(part, words) {
  const told = part?.querySelector(TOLD)?.firstChild;
  if (!told) return null;
  const before = told.nodeValue;
  if (before !== words) told.nodeValue = words;
  return before;
}
