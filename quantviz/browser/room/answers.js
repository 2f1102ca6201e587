// The answer in a lesson's own control, as it stands in the page when its learner commits to it: the run that
// keeps it may be seconds away, when a whole class commits at once.

import { typedNumber } from "./rules.js";

const CHOSEN = "[aria-checked=true], [aria-pressed=true], [data-testid$=Active]";
// The pills of an order in the order in which they were chosen, by the control's key.
const orders = new Map();

export function noteOrder(ask, button) {
  const pills = buttonsOf(ask);
  const at = pills.indexOf(button);
  if (ask.kind !== "order" || at < 0) return;
  const others = chosenOf(ask, pills).filter((each) => each !== at);
  orders.set(ask.key, pills[at].matches(CHOSEN) ? others : [...others, at]);
}

// Return the answer, null where there is none or only the server can read it.
export function readAnswer(ask) {
  const control = document.querySelector(`.st-key-${ask.key}`);
  const typed = (name) => document.querySelector(`.st-key-${ask.key}${name} input`)?.value ?? "";
  if (ask.kind === "drag") return ask.hand;
  if (ask.kind === "number") return typedNumber(typed(""));
  if (ask.kind === "cell") {
    const cell = ["_row", "_col"].map((name) => typedNumber(typed(name)));
    return cell.every(Number.isInteger) ? cell : null;
  }
  if (ask.kind === "order") {
    const pills = buttonsOf(ask);
    const chosen = chosenOf(ask, pills);
    return pills.length && chosen.length === pills.length ? chosen : null;
  }
  const radios = [...(control?.querySelectorAll("input[type=radio]") ?? [])];
  const at = radios.length
    ? radios.findIndex((radio) => radio.checked)
    : buttonsOf(ask).findIndex((button) => button.matches(CHOSEN));
  return at < 0 ? null : at;
}

function buttonsOf(ask) {
  return [...document.querySelectorAll(`.st-key-${ask.key} button`)];
}

function chosenOf(ask, pills) {
  return (orders.get(ask.key) ?? []).filter((at) => pills[at]?.matches(CHOSEN));
}
