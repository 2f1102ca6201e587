// Some controls of a page beside each other. A change is shown at once; an answer of the server that does not
// know of it changes none of them.

import { SHARED, tuckAway, lasting } from "./page/component.js";
import { endKeysMoves } from "./page/keys_move.js";
import { answeringHand, hearAnswers, touched } from "./controls/answers.js";
import { giveUp, hear, isAhead, isOnlyOf, makeAgain, tell } from "./controls/outbox.js";
import { KINDS, USUAL, partsOf } from "./controls/kinds.js";

// Milliseconds between two looks at a server, and looks at one at rest after which it has refused a choice.
const BETWEEN_LOOKS = 100;
const AT_REST = 30;
// Where some controls are of another kind.
const PHONE = matchMedia("(max-width: 640px)");

// The wait for the server's word on a choice, of whichever bar: it goes on where that bar goes away.
let waiting = 0;

// Show again what the server knows, where it has come to rest without the choice.
function wait(looks = AT_REST) {
  clearTimeout(waiting);
  waiting = setTimeout(() => {
    if (!isAhead()) return;
    const app = document.querySelector("[data-testid=stApp]");
    const isAtRest = app?.dataset.testScriptState === "notRunning";
    // What waits for a connection is not refused.
    const left = isAtRest && window.__quantvizConnection?.heard() !== null ? looks - 1 : AT_REST;
    if (left > 0) return wait(left);
    giveUp();
    SHARED.bars.forEach((bar) => bar.draw());
    answeringHand()?.pageChoice.leave();
  }, BETWEEN_LOOKS);
}

class Bar {
  constructor(parent) {
    this.root = parent.appendChild(document.createElement("div"));
    this.made = new Map();
    SHARED.bars.add(this);
    PHONE.addEventListener("change", (this.turn = () => this.draw()));
  }

  update(data, send) {
    const controls = data.controls.map((each) => ({ ...USUAL, ...each }));
    Object.assign(this, { data: { ...data, controls }, send });
    hear(data);
    if (data.answers) {
      hearAnswers({ ...data.answers, taken: data.taken }, send);
      tuckAway(this.root.parentNode, true);
    }
    // While a hand is ahead, a bar stays as it is. The answer that knows of the choice may come to another bar.
    this.isBehind = true;
    if (!isAhead()) SHARED.bars.forEach((bar) => bar.isBehind && bar.draw());
    else if (!this.made.size) this.draw();
    makeAgain((owner, field) =>
      [...SHARED.bars].find((bar) => bar.data?.owner === owner && bar.made.has(field)),
    );
  }

  draw() {
    this.isBehind = false;
    const { look, controls } = this.data;
    this.root.className = `qv-controls ${look}`;
    this.root.classList.toggle(
      "qv-icons",
      controls.some(({ icon }) => icon),
    );
    const shown = controls.map((control) => this.drawn(control));
    for (const [field, { box }] of this.made)
      if (!shown.includes(box)) {
        box.remove();
        this.made.delete(field);
      }
    shown.forEach(
      (box, at) => this.root.children[at] !== box && this.root.insertBefore(box, this.root.children[at]),
    );
  }

  // The box of a control: its name, which explains itself, and the control.
  drawn(control) {
    const { field, label, help } = control;
    const kind = (PHONE.matches && control.phone) || control.kind;
    let one = this.made.get(field);
    if (one?.kind !== kind) {
      one?.box.remove();
      const say = (form) => this.choose(field, form);
      const slide = (form) => this.slide(field, form);
      one = { kind, control: new KINDS[kind](say, slide), ...boxOf(field, kind) };
      one.box.append(...partsOf(one.control));
      for (const event of ["focusin", "pointerdown"]) one.box.addEventListener(event, touched);
      this.made.set(field, one);
    }
    const id = `qv-${this.data.key}-${field}`;
    one.control.write({ ...control, id });
    one.control.input.id = id;
    if (one.name) nameIt(one, { id, label, help });
    return one.box;
  }

  // Show other values until the server has answered.
  preview(values) {
    for (const control of this.data.controls) {
      const { field } = control;
      const shown = this.made.get(field)?.control;
      if (field in values) shown?.write({ ...control, value: values[field], id: shown.input.id });
    }
  }

  // Show what a slider on its way stands at: the server hears of it once it is let go.
  slide(field, form) {
    const choice = answeringHand()?.pageChoice;
    if (form === this.data.controls.find((each) => each.field === field).value) choice?.leave();
    else choice?.answer(field, form, Infinity, holds(field));
  }

  choose(field, form) {
    endKeysMoves();
    // It can be undone before the server has heard of it.
    for (const undo of document.querySelectorAll("[data-field=undo] button")) undo.disabled = false;
    const number = tell(this.data.owner, field, form, this.send);
    answeringHand()?.pageChoice.answer(field, form, number, holds(field));
    wait();
  }

  close() {
    PHONE.removeEventListener("change", this.turn);
    SHARED.bars.delete(this);
    this.root.remove();
  }
}

// Whether what the choices of a field lead to is known: it is beside all that an answer knew. After another
// choice only those of the same control still hold.
function holds(field) {
  return isOnlyOf(field, SHARED.answers.taken);
}

function boxOf(field, kind) {
  const box = document.createElement("div");
  box.className = `qv-control qv-${kind}`;
  Object.assign(box.dataset, { field, kind });
  if (kind === "button" || kind === "fold") return { box, name: null };
  const name = box.appendChild(document.createElement("span"));
  name.innerHTML = `<label></label><span class="qv-meaning" role="tooltip"></span>`;
  return { box, name };
}

// Write the name beside a control, and what it means.
function nameIt({ name, control: { input } }, { id, label, help }) {
  const [word, meaning] = name.children;
  word.textContent = label;
  word.htmlFor = id;
  word.id = `${id}-name`;
  if (meaning.innerHTML !== help) meaning.innerHTML = help;
  meaning.id = `${id}-meaning`;
  name.className = help ? "qv-name-of qv-term" : "qv-name-of";
  name.tabIndex = help ? 0 : -1;
  input.setAttribute("aria-labelledby", word.id);
  if (help) input.setAttribute("aria-describedby", meaning.id);
}

export default lasting(Bar);
