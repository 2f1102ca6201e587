// The kinds of controls: native ones, each made once, and written anew with each answer. `say` is called with
// what was chosen, in the form that links have.

import { drawChildren } from "../page/elements.js";
import { spelledAsNamed } from "../page/typed_names.js";

// Characters of a text, where nothing else is said.
const LONGEST = 60;
// What is left out of a control.
export const USUAL = {
  label: "",
  help: "",
  value: "",
  icon: "",
  phone: "",
  example: "",
  choices: [],
  limits: ["", "", "any"],
  disabled: false,
  wrong: false,
};
const make = (name, props = {}) => Object.assign(document.createElement(name), props);

// Change what differs: a control in use stays as it is.
function write(node, props) {
  for (const [name, value] of Object.entries(props)) if (node[name] !== value) node[name] = value;
}

// What a control is made of.
export const partsOf = ({ parts, input }) => parts ?? [input];

class List {
  constructor(say) {
    this.input = make("select");
    this.input.addEventListener("change", () => say(this.input.value));
  }

  write({ choices, value, disabled }) {
    drawChildren(
      this.input,
      choices,
      () => make("option"),
      (option, [form, words, reason = ""]) =>
        write(option, { textContent: words, value: form, disabled: Boolean(reason), title: reason }),
    );
    write(this.input, { value, disabled });
  }
}

// A button for each choice, marked where it is chosen.
class Segments {
  constructor(role, type) {
    this.input = make("div", { className: "qv-segments", role });
    this.type = type;
  }

  write({ choices, value, disabled, id }) {
    this.chosen = value ? value.split("\n") : [];
    const one = () => {
      const label = make("label");
      label.append(make("input", { type: this.type, name: id }), make("span"));
      return label;
    };
    drawChildren(this.input, choices, one, (label, [form, words, reason = ""]) => {
      const [mark, shown] = label.children;
      const checked = form ? this.chosen.includes(form) : !value;
      write(mark, { value: form, checked, disabled: disabled || Boolean(reason) });
      write(shown, { textContent: words });
      write(label, { title: reason });
    });
  }
}

class Row extends Segments {
  constructor(say) {
    super("radiogroup", "radio");
    // A click on what is chosen counts too: it may be undone already, which the server has not said yet.
    this.input.addEventListener("click", ({ target }) => target.type === "radio" && say(target.value));
  }
}

// A row of what a slider can stand at, of which it shows the first line.
class Steps extends Row {
  write(control) {
    const short = ([form, words, ...reason]) => [form, words.split("\n")[0], ...reason];
    super.write({ ...control, choices: control.choices.map(short) });
  }
}

// Several of its choices, in the order in which they were chosen.
class Many extends Segments {
  constructor(say) {
    super("group", "checkbox");
    this.input.addEventListener("change", ({ target: { value, checked } }) => {
      this.chosen = this.chosen.filter((form) => form !== value);
      if (checked) this.chosen.push(value);
      say(this.chosen.join("\n"));
    });
  }
}

// One of many, found by a part of its words.
class Find {
  constructor(say) {
    this.input = make("input", { className: "qv-field", type: "text", autocomplete: "off" });
    this.list = make("datalist");
    this.parts = [this.input, this.list];
    this.input.addEventListener("input", ({ inputType = "insertReplacementText", isComposing }) => {
      const words = this.choices.map(([, each]) => each);
      if (inputType === "insertReplacementText") this.take(say);
      else if (!isComposing) write(this.input, { value: spelledAsNamed(this.input.value, words) });
    });
    this.input.addEventListener("change", () => this.take(say));
  }

  // Say which choice is meant: the one with these words, or the only one that has them.
  take(say) {
    const typed = this.input.value.trim().toLowerCase();
    const having = this.choices.filter(([, words]) => words.toLowerCase().includes(typed));
    const meant = having.find(([, words]) => words.toLowerCase() === typed) ?? having[0];
    if (!typed || !meant || (having.length > 1 && meant[1].toLowerCase() !== typed)) return;
    write(this.input, { value: "" });
    say(meant[0]);
  }

  write({ choices, disabled, example, id }) {
    this.choices = choices;
    write(this.list, { id: `${id}-list` });
    this.input.setAttribute("list", this.list.id);
    write(this.input, { disabled, placeholder: example });
    drawChildren(
      this.list,
      choices,
      () => make("option"),
      (option, [, words]) => write(option, { value: words }),
    );
  }
}

// Several of many: those that are chosen, of which each goes when it is pressed, and a field that adds one.
class Picks extends Find {
  constructor(say) {
    super((form) => say([...this.chosen, form].join("\n")));
    this.picked = make("div", { className: "qv-picked" });
    this.picked.addEventListener("click", ({ target }) => {
      if (target.value) say(this.chosen.filter((each) => each !== target.value).join("\n"));
    });
    this.parts.unshift(this.picked);
  }

  write(control) {
    const { choices, value, disabled } = control;
    this.chosen = value ? value.split("\n") : [];
    super.write({ ...control, choices: choices.filter(([form]) => !this.chosen.includes(form)) });
    const named = new Map(choices);
    drawChildren(
      this.picked,
      this.chosen,
      () => make("button", { type: "button" }),
      (button, form) => write(button, { value: form, textContent: `${named.get(form)} ×`, disabled }),
    );
  }
}

class Switch {
  constructor(say) {
    this.input = make("input", { type: "checkbox", role: "switch" });
    this.input.addEventListener("change", () => say(this.input.checked ? "1" : ""));
  }

  write({ value, disabled }) {
    write(this.input, { checked: value === "1", disabled });
  }
}

class Button {
  constructor(say) {
    this.input = make("button", { type: "button" });
    this.input.addEventListener("click", () => say(""));
  }

  write({ label, icon, disabled, help }) {
    write(this.input, { textContent: icon || label, disabled, title: help, ariaLabel: label });
    this.input.classList.toggle("qv-icon", Boolean(icon));
  }
}

// A button that unfolds the controls beside it.
class Fold {
  constructor() {
    this.input = make("button", { type: "button" });
    this.input.addEventListener("click", () => {
      document.documentElement.toggleAttribute("data-qv-open");
      this.tell();
    });
  }

  tell() {
    this.input.setAttribute("aria-expanded", document.documentElement.hasAttribute("data-qv-open"));
  }

  write({ label }) {
    write(this.input, { textContent: label });
    this.tell();
  }
}

class Field {
  constructor(say) {
    this.input = make("input", {
      className: "qv-field",
      type: "text",
      autocomplete: "off",
      spellcheck: false,
    });
    this.input.addEventListener("input", () => (this.isTyped = true));
    for (const end of ["change", "blur"]) this.input.addEventListener(end, () => (this.isTyped = false));
    this.input.addEventListener("change", () => this.input.reportValidity() && say(this.input.value));
  }

  // What is being typed stays, and what could not be read, to be mended.
  write({ value, disabled, wrong, example, limits: [, most] }) {
    write(this.input, { disabled, placeholder: example, maxLength: Number(most) || LONGEST });
    if (!wrong && !this.isTyped) write(this.input, { value });
    this.input.setAttribute("aria-invalid", wrong);
  }
}

class NumberField extends Field {
  write(control) {
    const [min, max, step] = control.limits;
    write(this.input, { type: "number", min, max, step });
    super.write({ ...control, limits: [] });
  }
}

// A slider between two words on what it stands at, which are the last lines of a choice's words.
class Slider {
  constructor(say, slide) {
    this.input = make("input", { type: "range", min: "0", step: "1" });
    this.first = make("b");
    this.last = make("span");
    this.parts = [this.first, this.input, this.last];
    this.input.addEventListener("input", () => {
      this.held = true;
      this.tell();
      slide(this.form);
    });
    // One that came back to where it began says nothing.
    for (const end of ["change", "pointerup", "pointercancel"])
      this.input.addEventListener(end, () => (this.held = false));
    this.input.addEventListener("change", () => say(this.form));
  }

  get form() {
    return this.choices[Number(this.input.value)][0];
  }

  write({ choices, value, disabled }) {
    if (this.held) return;
    this.choices = choices;
    const at = choices.findIndex(([form]) => form === value);
    write(this.input, { max: String(choices.length - 1), value: String(at), disabled });
    this.tell();
  }

  // The track's filled part ends under the disc.
  tell() {
    const { value, max } = this.input;
    this.input.style.setProperty("--at", Number(value) / Math.max(Number(max), 1));
    const [first, last = ""] = this.choices[Number(value)][1].split("\n").slice(-2);
    write(this.first, { textContent: first });
    write(this.last, { textContent: last });
    this.input.setAttribute("aria-valuetext", last ? `${first}, ${last}` : first);
  }
}

export const KINDS = {
  list: List,
  row: Row,
  steps: Steps,
  many: Many,
  find: Find,
  picks: Picks,
  switch: Switch,
  button: Button,
  fold: Fold,
  text: Field,
  digits: NumberField,
  range: Slider,
};
