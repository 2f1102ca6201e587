// What hands have chosen on a page that no answer of the server knows yet. Each choice has a number, and each
// message has all of them: one that is lost or overtaken costs nothing, and one that comes twice counts once.

import { oncePainted } from "../page/motion.js";

const outbox = { session: null, page: null, last: 0, pending: [] };
// The name in the tab's storage of the choices that no answer knew when the page was left, with its address.
const KEPT = "quantviz.unheard";
// Those choices, where this is the same page, loaded anew or come back to.
let unheard = readUnheard();
addEventListener("pagehide", keepUnheard);

function readUnheard() {
  const isNew = performance.getEntriesByType("navigation")[0]?.type === "navigate";
  try {
    const [address, choices] = JSON.parse(sessionStorage.getItem(KEPT)) ?? [];
    sessionStorage.removeItem(KEPT);
    return address === location.href && !isNew ? choices : [];
  } catch {
    return []; // storage can be switched off
  }
}

function keepUnheard() {
  const choices = outbox.pending.map(([, ...choice]) => choice);
  try {
    if (choices.length) sessionStorage.setItem(KEPT, JSON.stringify([location.href, choices]));
    else sessionStorage.removeItem(KEPT);
  } catch {
    // Then a choice made just before a reload is lost.
  }
}

// Take an answer: it knows the choices up to the number `taken`.
export function hear({ session, page, taken }) {
  if (outbox.session !== session || outbox.page !== page)
    Object.assign(outbox, { session, page, pending: [] });
  outbox.last = Math.max(outbox.last, taken);
  outbox.pending = outbox.pending.filter(([number]) => number > taken);
}

// Whether a hand has gone on since the last answer.
export function isAhead() {
  return outbox.pending.length > 0;
}

// Make the choices again that were unheard, once all their controls are there; `barOf` returns a control's bar.
export function makeAgain(barOf) {
  const bars = unheard.map(([owner, field]) => barOf(owner, field));
  if (!bars.every(Boolean)) return;
  const choices = unheard;
  unheard = [];
  choices.forEach(([, field, form], at) => bars[at].choose(field, form));
}

// Send a choice of a field of an `owner`, in the form that links have; returns its number.
export function tell(owner, field, form, send) {
  unheard = []; // the hand has gone on
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
