// Keep a learner's answers in this browser, and send them to the server when a session begins. The server
// merges them with what it knows, and the browser stores the result. Two rules keep answers from being lost:
// read what another page stored before writing over it, and write nothing before the server has confirmed
// everything that was sent.

import { tuckAway } from "./page/component.js";

// Milliseconds that a step waits for parts of it that are on their way.
const PATIENCE = 3000;
// Cards stand in rows that are as high as the highest.
const WORDS_TO_COME =
  ":is(.st-key-lesson_words, .st-key-lesson_question, .st-key-lesson_courses) [data-testid=stSkeleton]";
// Panels are whole when they have their width.
const PICTURE_TO_COME =
  ":is(.st-key-lesson_picture, .st-key-lesson_below) [data-testid=stSkeleton], " +
  ".st-key-lesson_panels:not([data-qv-arranged])";
// They are there before their scripts are.
const MOVED = ":is(.st-key-lesson_hand, .st-key-lesson_dial)";

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
  uncover(performance.now() + PATIENCE);
}

// Show a step's words and question, and the list of lessons, once they are whole, then the step's picture:
// what is seen does not move.
function uncover(until) {
  const { dataset } = document.documentElement;
  if (dataset.qvProgress === "ready") return;
  const waits = performance.now() < until;
  const isToCome =
    document.querySelector(PICTURE_TO_COME) || document.querySelector(MOVED)?.offsetHeight === 0;
  if (!waits || !document.querySelector(WORDS_TO_COME))
    dataset.qvProgress = waits && isToCome ? "words" : "ready";
  requestAnimationFrame(() => uncover(until));
}
