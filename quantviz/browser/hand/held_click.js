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

  // A press begins, on a choice that can be answered or on anything else: null. A finger's is not held: the
  // page's buttons take no click that is repeated after a touch.
  begin(choice, pointer) {
    this.letGo();
    this.byFinger = pointer === "touch";
    this.choice = this.byFinger ? null : choice;
  }

  // Keep the end of a press on the choice that it began on: a click follows. Until both are repeated, keep a
  // mouse there too: a button that it leaves before takes the press for one that was given up.
  hold(event) {
    if (!event.isTrusted || !this.choice?.contains(event.target)) return;
    const leaves = event.type === "pointerout";
    if (leaves ? !this.paints : this.paints || event.button) return;
    event.stopPropagation();
    this.kept.push(event);
    if (!leaves) this.timer = setTimeout(() => this.letGo(), PATIENCE);
  }

  // Give the page what was kept from it: what follows is the page's own.
  letGo() {
    clearTimeout(this.timer);
    const { kept } = this;
    this.kept = [];
    this.choice = this.paints = null;
    kept.forEach(repeat);
  }

  // Whether a click may be held: a person's, for the first time.
  canHold(event) {
    return event.type === "click" && event.isTrusted && !this.byFinger;
  }

  // Keep a click from the page, and repeat the press's end and the click once the answer was painted, or where
  // another press begins.
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
  const { target, type, clientX, clientY } = event;
  if (type === "pointerout" && !target.isConnected) return;
  const there = target.isConnected ? target : document.elementFromPoint(clientX, clientY);
  there?.dispatchEvent(again);
}

export function isRepeated(event) {
  return REPEATED.has(event);
}
