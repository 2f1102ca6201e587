// A press that was answered before Streamlit hears of its end: drawing the control and asking the server
// takes as long as the answer, which is painted first.

import { oncePainted } from "../page/motion.js";

// Events that are given to the page for the second time.
const REPEATED = new WeakSet();
// Milliseconds after which no click follows the end of a press any more.
const PATIENCE = 60;

export class HeldPress {
  constructor() {
    this.end = [];
  }

  // A press begins, on a choice that can be answered or on anything else: null.
  begin(choice, pointer) {
    this.letGo();
    this.byFinger = pointer === "touch";
    this.choice = choice;
  }

  // Keep the end of a press on the choice that it began on: a click follows. A finger that is lifted leaves
  // the choice as well: without the lift before it, a button would take that for a press that was given up.
  hold(event) {
    if (!event.isTrusted || event.button > 0 || !this.choice?.contains(event.target)) return;
    if (event.type === "pointerout" && (!this.byFinger || !this.end.length)) return;
    event.stopPropagation();
    clearTimeout(this.timer);
    this.end.push(event);
    this.timer = setTimeout(() => this.letGo(), PATIENCE);
  }

  // Give its end to the page: what follows is the page's own.
  letGo() {
    clearTimeout(this.timer);
    this.taken().forEach(repeat);
  }

  // Return the end of a press that was kept, which is kept no longer.
  taken() {
    const { end } = this;
    this.end = [];
    this.choice = null;
    return end;
  }

  // Whether a click may be held: a person's, for the first time. A finger's only with the end of its press:
  // a button that knows of that end, and of no click, clicks itself.
  canHold(event) {
    return event.type === "click" && event.isTrusted && (!this.byFinger || this.end.length > 0);
  }

  // Keep a click from the page, and repeat the press's end and the click once the answer was painted.
  holdUntilPainted(event) {
    event.stopImmediatePropagation();
    clearTimeout(this.timer);
    // An open list would lie over the answer; it closes by the click.
    const list = event.target.closest("[data-testid=stSelectboxVirtualDropdown]");
    if (list) list.style.opacity = "0";
    const all = [...this.taken(), event];
    oncePainted(() => all.forEach(repeat));
  }
}

function repeat(event) {
  const again = new PointerEvent(event.type, event);
  REPEATED.add(again);
  // The server may have put another element in its place meanwhile.
  const { target, clientX, clientY } = event;
  const there = target.isConnected ? target : document.elementFromPoint(clientX, clientY);
  there?.dispatchEvent(again);
}

export function isRepeated(event) {
  return REPEATED.has(event);
}
