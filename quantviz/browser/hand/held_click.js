// A click that was answered before Streamlit hears of it: drawing the control and asking the server takes as
// long as the answer, which is painted first.

import { oncePainted } from "../page/motion.js";

// Clicks that are given to the page for the second time.
const REPEATED = new WeakSet();

// Keep a click from the page, and repeat it once the answer was painted.
export function holdUntilPainted(event) {
  event.stopImmediatePropagation();
  // An open list would lie over the answer; it closes by the click.
  const list = event.target.closest("[data-testid=stSelectboxVirtualDropdown]");
  if (list) list.style.opacity = "0";
  const again = new PointerEvent(event.type, event);
  REPEATED.add(again);
  oncePainted(() => event.target.dispatchEvent(again));
}

// Whether an event may be held: a click of a person's, for the first time.
export function canBeHeld(event) {
  return event.type === "click" && event.isTrusted;
}

export function isRepeated(event) {
  return REPEATED.has(event);
}
