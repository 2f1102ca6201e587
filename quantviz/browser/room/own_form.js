// The form of a question of the lecturer's own, which no lesson has, made of the controls that all pages have.

import { KINDS, USUAL, partsOf } from "../controls/kinds.js";
import { typedNumber } from "./rules.js";

const LETTERS = "ABCDEFGH";

export class OwnForm {
  // `commit` gets the answer, null for none, and whether it is sure.
  constructor(own, words, commit) {
    Object.assign(this, { own, words, controls: [], answer: undefined, given: null });
    this.root = document.createElement("div");
    this.root.className = "qv-controls qv-below qv-room-form";
    this.root.setAttribute("role", "group");
    this.root.ariaLabel = own.words;
    this.put("p", "qv-room-asked").textContent = own.words;
    if (own.kind === "choice") this.add("row", own.words, (form) => (this.given = Number(form)));
    if (own.kind === "number") this.add("text", words.number, (form) => (this.given = typedNumber(form)));
    this.note = this.put("p", "qv-room-note");
    for (const name of ["sure", "guess"])
      this.add("button", words[name], () => commit(this.given, name === "sure"));
  }

  put(name, look) {
    return this.root.appendChild(Object.assign(document.createElement(name), { className: look }));
  }

  add(kind, label, say) {
    const box = this.put("div", `qv-control qv-${kind}`);
    const control = new KINDS[kind](say);
    control.input.ariaLabel = label;
    box.dataset.kind = kind;
    box.append(...partsOf(control));
    this.controls.push({ kind, label, control });
  }

  // Write what the phone has answered, and what it had in the first round.
  write(answer, first, disabled) {
    const { own, words } = this;
    const isNew = JSON.stringify(answer) !== JSON.stringify(this.answer);
    if (isNew) this.given = answer ?? null;
    this.answer = answer;
    const marked = (at) => (first === at ? ` (${words.first})` : "");
    const choices = own.options.map((text, at) => [String(at), `${LETTERS[at]} · ${text}${marked(at)}`]);
    for (const { kind, label, control } of this.controls) {
      // What is being typed stays.
      const value = kind === "text" && !isNew ? control.input.value : String(this.given ?? "");
      control.write({ ...USUAL, label, choices, value, disabled, id: "qv-own" });
    }
    const before = own.kind === "number" && first !== undefined ? `${words.first}: ${first}` : "";
    this.note.textContent = own.kind === "drag" ? words.drag : before;
  }
}
