// What hands have chosen on a page that no answer of the server knows yet. Each choice has a number, and each
// message has all of them: one that is lost or overtaken costs nothing, and one that comes twice counts once.

import { oncePainted } from "../page/motion.js";

const outbox = { session: null, page: null, last: 0, pending: [] };
// What a page had not told the server yet when it was loaded anew, or left and come back to.
const KEPT = "quantviz.unheard";
let kept = null;
addEventListener("pagehide", () => {
  const choices = outbox.pending.map(([, ...choice]) => choice);
  if (choices.length) sessionStorage.setItem(KEPT, JSON.stringify([location.pathname, choices]));
});

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

// Have hands' choices of before the page was loaded made again, once all their controls are there: `placeOf`
// returns a control's bar.
export function makeAgain(placeOf) {
  kept ??= JSON.parse(sessionStorage.getItem(KEPT) ?? "[]");
  sessionStorage.removeItem(KEPT);
  const [pathname, choices = []] = kept;
  const bars = choices.map(([owner, field]) => placeOf(owner, field));
  if (pathname !== location.pathname || !bars.every(Boolean)) return;
  kept = [];
  choices.forEach(([, field, form], at) => bars[at].choose(field, form));
}

// Send a choice of a field of an `owner`, in the form that links have; returns its number.
export function tell(owner, field, form, send) {
  kept = [];
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
