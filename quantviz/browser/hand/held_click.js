// A press that was answered before Streamlit hears of its end: drawing the control and asking the server
// takes as long as the answer, which is painted first.

import { oncePainted } from "../page/motion.js";

// Events that are given to the page for the second time.
const REPEATED = new WeakSet();
// Milliseconds after which no click follows the end of a press any more.
const PATIENCE = 60;

export class HeldPress {
  constructor() {
    this.kept = [];
  }

  // A press begins, on a choice that can be answered or on anything else: null.
  begin(choice, pointer) {
    this.letGo();
    this.byFinger = pointer === "touch";
    this.choice = choice;
  }

  // Keep the end of a press on the choice that it began on: a click follows. A finger that is lifted and a
  // mouse that goes on leave the choice only after it: a button that is left before its press has ended takes
  // it for one that was given up.
  hold(event) {
    if (!event.isTrusted || event.button > 0 || !this.choice?.contains(event.target)) return;
    const leaves = event.type === "pointerout";
    if (leaves ? !this.kept.length : this.paints) return;
    event.stopPropagation();
    this.kept.push(event);
    if (this.paints) return;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.letGo(), PATIENCE);
  }

  // Give the page what was kept from it: what follows is the page's own.
  letGo() {
    clearTimeout(this.timer);
    const { kept } = this;
    this.kept = [];
    this.choice = null;
    this.paints = false;
    kept.forEach(repeat);
  }

  // Whether a click may be held: a person's, for the first time. A finger's only with the end of its press:
  // a button that knows of that end, and of no click, clicks itself.
  canHold(event) {
    return event.type === "click" && event.isTrusted && (!this.byFinger || this.kept.length > 0);
  }

  // Keep a click from the page, and repeat the press's end and the click once the answer was painted, or
  // before another press begins.
  holdUntilPainted(event) {
    event.stopImmediatePropagation();
    clearTimeout(this.timer);
    // An open list would lie over the answer; it closes by the click.
    const list = event.target.closest("[data-testid=stSelectboxVirtualDropdown]");
    if (list) list.style.opacity = "0";
    const { kept } = this;
    kept.push(event);
    this.paints = true;
    oncePainted(() => this.kept === kept && this.letGo());
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
