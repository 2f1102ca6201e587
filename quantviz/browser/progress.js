// Keep a learner's answers in this browser, and send them to the server when a session begins. The server
// merges them with what it knows, and the browser stores the result. Two rules keep answers from being lost:
// read what another page stored before writing over it, and write nothing before the server has confirmed
// everything that was sent.

import { tuckAway } from "./page/component.js";

const now = (window.__quantvizProgress ??= { session: null, known: null, sent: 0 });

export default function ({ data, parentElement, setStateValue }) {
  tuckAway(parentElement, true);
  if (now.session !== data.session) Object.assign(now, { session: data.session, known: null, sent: 0 });
  try {
    const stored = window.localStorage.getItem(data.key);
    if (stored !== now.known) {
      now.known = stored;
      if (stored !== null && !data.cleared) {
        now.sent += 1;
        setStateValue("stored", { count: now.sent, text: stored.slice(0, data.most) });
      }
    }
    if (data.read < now.sent) return;
    if (data.cleared) window.localStorage.removeItem(data.key);
    else if (data.text !== null && data.text !== now.known) window.localStorage.setItem(data.key, data.text);
    now.known = window.localStorage.getItem(data.key);
  } catch {
    // Storage can be switched off, or be full.
    if (!data.refused) setStateValue("refused", true);
  }
  // The step was hidden until it is known whether it was answered already.
  document.documentElement.dataset.qvProgress = "ready";
}
