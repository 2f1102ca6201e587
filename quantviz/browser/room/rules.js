// What follows from a room's news: whether a page is behind, and the sentence on the vote.

export function reaches(news, stop) {
  return stop === news.stop || (news.pace !== null && stop <= news.pace);
}

// Return whether the page shows another stop, round or state of the answer than the room's.
export function isBehind(shown, news) {
  if (news.version < shown.version) return false;
  if (shown.stop === null || !reaches(news, shown.stop) || shown.answers !== news.answers) return true;
  if (shown.stop !== news.stop) return false;
  return shown.round !== news.round || (shown.phase === "told") !== (news.phase === "told");
}

// Return the phase of the stop that the page shows; of another one than the class's as the server had it.
export function phaseOf(shown, news) {
  const isNews = news && news.stop === shown.stop && news.version >= shown.version;
  return isNews ? news.phase : shown.phase;
}

export function isOpen(phase) {
  return phase === "ask" || phase === "again";
}

// Return the next stop that a phone may go to in a direction; null without one.
export function nextStop(shown, news, step) {
  for (let stop = shown.stop + step; stop >= 0 && stop < shown.stops; stop += step)
    if (reaches(news, stop)) return stop;
  return null;
}

// Return the key of the sentence that a phone shows, or the server's own sentence.
export function statusOf({ ended, lost, phase, vote, unsent }) {
  if (ended) return "ended";
  if (vote?.state === "sending") return unsent ? "unsent" : "sending";
  if (lost) return lost;
  if (phase === "told") return "told";
  if (phase === "closed") return vote?.state === "counted" ? "counted_closed" : "closed";
  if (vote) return vote.state;
  return phase === "again" ? "again" : "";
}

// Return a typed number, with a decimal point or comma, in digits of any width; null for anything else, which
// the server reads.
export function typedNumber(text) {
  const plain = text
    .normalize("NFKC")
    .trim()
    .replace(/^[−–]/, "-");
  return /^[+-]?(\d+([.,]\d*)?|[.,]\d+)$/.test(plain) && !/^[+-]?[1-9]\d{0,2},\d{3}$/.test(plain)
    ? Number(plain.replace(",", "."))
    : null;
}
