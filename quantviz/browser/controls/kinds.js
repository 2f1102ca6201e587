// The kinds of controls: native ones, each made once, and written anew with each answer. `say` is called with
// what was chosen, in the form that links have.

import { drawChildren } from "../page/elements.js";

const make = (name, props = {}) => Object.assign(document.createElement(name), props);

// Change what differs: a control in use stays as it is.
function write(node, props) {
  for (const [name, value] of Object.entries(props)) if (node[name] !== value) node[name] = value;
}

class List {
  constructor(say) {
    this.input = make("select");
    this.input.addEventListener("change", () => say(this.input.value));
    this.parts = [this.input];
  }

  write({ choices, value, disabled }) {
    drawChildren(
      this.input,
      choices,
      () => make("option"),
      (option, [form, words, reason]) =>
        write(option, { value: form, textContent: words, disabled: Boolean(reason), title: reason }),
    );
    write(this.input, { value, disabled });
  }
}

class Row {
  constructor(say) {
    this.input = make("div", { className: "qv-segments" });
    this.input.setAttribute("role", "radiogroup");
    this.input.addEventListener("change", ({ target }) => say(target.value));
    this.parts = [this.input];
  }

  write({ choices, value, disabled, id }) {
    const one = () => {
      const label = make("label");
      label.append(make("input", { type: "radio", name: id }), make("span"));
      return label;
    };
    drawChildren(this.input, choices, one, (label, [form, words, reason]) => {
      const [radio, shown] = label.children;
      write(radio, { value: form, checked: form === value, disabled: disabled || Boolean(reason) });
      write(shown, { textContent: words });
      write(label, { title: reason });
    });
  }
}

class Switch {
  constructor(say) {
    this.input = make("input", { type: "checkbox", role: "switch" });
    this.input.addEventListener("change", () => say(this.input.checked ? "1" : ""));
    this.parts = [this.input];
  }

  write({ value, disabled }) {
    write(this.input, { checked: value === "1", disabled });
  }
}

class Button {
  constructor(say) {
    this.input = make("button", { type: "button" });
    this.input.addEventListener("click", () => say(""));
    this.parts = [this.input];
  }

  write({ label, icon, disabled, help }) {
    write(this.input, { textContent: icon || label, disabled, title: help, ariaLabel: label });
    this.input.classList.toggle("qv-icon", Boolean(icon));
  }
}

class Field {
  constructor(say) {
    this.input = make("input", { type: "text", maxLength: 60, autocomplete: "off", spellcheck: false });
    this.input.addEventListener("change", () => say(this.input.value));
    this.parts = [this.input];
  }

  // What could not be read stays to be mended.
  write({ value, disabled, wrong }) {
    write(this.input, wrong ? { disabled } : { value, disabled });
    this.input.setAttribute("aria-invalid", wrong);
  }
}

export const KINDS = { list: List, row: Row, switch: Switch, button: Button, text: Field };
