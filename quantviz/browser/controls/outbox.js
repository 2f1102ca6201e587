// What hands have chosen on a page that no answer of the server knows yet. Each choice has a number, and each
// message has all of them: one that is lost or overtaken costs nothing, and one that comes twice counts once.

import { oncePainted } from "../page/motion.js";

const outbox = { session: null, page: null, last: 0, pending: [] };
// The name in the tab's storage of what no answer knew when the page was left: its address, the session and the
// choices.
const KEPT = "quantviz.unheard";
// Those choices, where this is the same page, loaded anew or come back to.
const left = readLeft();
addEventListener("pagehide", keepLeft);

function readLeft() {
  try {
    const [address, session, choices] = JSON.parse(sessionStorage.getItem(KEPT)) ?? [];
    sessionStorage.removeItem(KEPT);
    if (choices && address === window.__quantvizArrived) return { session, choices };
  } catch {
    // Storage can be switched off.
  }
  return { session: null, choices: [] };
}

function keepLeft() {
  const { session, pending } = outbox;
  try {
    if (pending.length) sessionStorage.setItem(KEPT, JSON.stringify([location.href, session, pending]));
    else sessionStorage.removeItem(KEPT);
  } catch {
    // Then a choice made just before a reload is lost.
  }
}

// Take an answer: it knows the choices up to the number `taken`.
export function hear({ session, page, taken }) {
  if (outbox.session !== session || outbox.page !== page)
    Object.assign(outbox, { session, page, pending: [] });
  // The session goes on, and may have taken them without an answer.
  if (session === left.session) left.choices = left.choices.filter(([number]) => number > taken);
  outbox.last = Math.max(outbox.last, taken);
  outbox.pending = outbox.pending.filter(([number]) => number > taken);
}

// Whether a hand has gone on since the last answer.
export function isAhead() {
  return outbox.pending.length > 0;
}

// Make the choices again that were unheard, once all their controls are there; `barOf` returns a control's bar.
export function makeAgain(barOf) {
  const bars = left.choices.map(([, owner, field]) => barOf(owner, field));
  if (!bars.every(Boolean)) return;
  const { choices } = left;
  left.choices = [];
  choices.forEach(([, , field, form], at) => bars[at].choose(field, form));
}

// Send a choice of a field of an `owner`, in the form that links have; returns its number.
export function tell(owner, field, form, send) {
  left.choices = []; // the hand has gone on
  outbox.pending.push([++outbox.last, owner, field, form]);
  // What the page shows of it is painted first.
  oncePainted(() => isAhead() && send("chosen", outbox.pending));
  return outbox.last;
}

// Whether all that was chosen since the answer `taken` was chosen in one field.
export function isOnlyOf(field, taken) {
  return outbox.pending.every(([number, , name]) => number <= taken || name === field);
}

// Give up what the server does not take.
export function giveUp() {
  outbox.pending = [];
}
