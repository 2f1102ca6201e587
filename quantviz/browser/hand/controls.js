// The page's own controls of the scheme, answered before the server is asked. The server has sent the scheme
// that each choice leads to; what a person has chosen is read from the control, whichever way it was done.

import { SHARED } from "../page/component.js";
import { HeldPress, isRepeated } from "./held_click.js";
import { hearNumbers } from "./number_fields.js";

// What may change a control.
const EVENTS = ["click", "pointerup", "keydown", "keyup"];

const press = new HeldPress();

// Take what the server says of the controls, and say what is missing.
export function learnControls({ setting, schemes, texts, ...controls }, send) {
  if (SHARED.known?.setting !== setting)
    SHARED.known = { setting, schemes: new Map(), texts: new Map(), quantizers: new Map() };
  const { known } = SHARED;
  for (const [number, text] of Object.entries(texts)) known.texts.set(Number(number), text);
  for (const [name, variant] of Object.entries(schemes)) known.schemes.set(name, variant);
  SHARED.controls = { ...controls, send, by: null };
  const wanted = [...Object.values(controls.names), controls.buttons].flatMap(Object.values);
  const there = ({ program }) => known.texts.has(program.text);
  if (!wanted.every((name) => known.schemes.has(name) && there(known.schemes.get(name))))
    send("missing", true);
  // It may have been opened before the page could hear of it.
  const open = document.querySelector("input[role=combobox][aria-expanded=true]");
  if (open) opened({ target: open });
  prepare(wanted);
  goOnFromKey();
}

// The server's answer puts another button in the place of one that a key has pressed, which gets the focus.
function goOnFromKey() {
  const { keyed } = SHARED;
  SHARED.keyed = null;
  if (keyed && document.activeElement === document.body)
    document.querySelector(`.st-key-${keyed} button`)?.focus({ preventScroll: true });
}

// Make what schemes quantize with while the browser rests: a press need not wait for it.
function prepare(names) {
  const left = names.filter((name) => !SHARED.known.quantizers.has(name));
  const go = (idle) => {
    while (left.length && idle.timeRemaining() > 1) {
      const name = left.pop();
      const variant = variantOf(name);
      if (variant) SHARED.hands.get(SHARED.controls.chart)?.pageChoice.prepare(name, variant);
    }
    if (left.length) requestIdleCallback(go);
  };
  // Safari has no such call.
  if (left.length) window.requestIdleCallback?.(go);
}

// The variant of a scheme with its program; undefined of one that is not known.
export function variantOf(scheme) {
  const variant = SHARED.known?.schemes.get(scheme);
  const text = SHARED.known?.texts.get(variant?.program.text);
  return text && { ...variant, program: { ...variant.program, text } };
}

// Listen to the controls, once a page: before Streamlit hears of an event, and after the page has changed.
export function listenToControls() {
  if (SHARED.listening) return;
  SHARED.listening = true;
  const options = { capture: true, passive: true };
  window.addEventListener("pointerdown", begins, options);
  for (const name of EVENTS) window.addEventListener(name, heard, options);
  for (const name of ["pointerup", "pointerout"])
    document.addEventListener(name, (event) => press.hold(event), { capture: true });
  for (const name of ["change", "keydown"]) window.addEventListener(name, hearNumbers, options);
  window.addEventListener("focusin", opened, options);
}

// Ask for the choices of a long list that is about to be opened.
function opened({ target }) {
  const { lists = [], send, asked } = SHARED.controls ?? {};
  const key = target.closest && lists.find((each) => target.closest(`.st-key-${each}`));
  if (!key || key === asked) return;
  SHARED.controls.asked = key;
  send("opened", key);
}

// What takes a look at the page is looked at before a press ends: its answer is waited for.
function begins({ target, pointerType }) {
  const { controls } = SHARED;
  const clicked = controls && clickedIn(target, controls);
  const isKnown = clicked && variantOf(clicked.scheme);
  press.begin(isKnown ? clicked.pressed : null, pointerType);
  if (!controls) return;
  SHARED.before = chosenNow(controls, "[aria-expanded=false]");
  if (isKnown) SHARED.hands.get(controls.chart)?.ruler?.lookWhetherSeen();
}

function heard(event) {
  const { controls } = SHARED;
  // What is typed into a list only looks for a choice.
  if (!controls || isRepeated(event) || (event.key?.length === 1 && event.key !== " ")) return;
  opened(event);
  const clicked = event.type === "click" ? clickedIn(event.target, controls) : null;
  // A key's click has no clicks before it.
  if (clicked) SHARED.keyed = clicked.isButton && !event.detail ? clicked.key : null;
  if (clicked && press.canHold(event) && choose(clicked.key, clicked.scheme)) {
    if (SHARED.heard) SHARED.heard.answered = true;
    return press.holdUntilPainted(event);
  }
  if (event.type === "click") press.letGo();
  const pressed = clicked?.isButton ? clicked.key : null;
  // Several events of one press are answered once.
  if (SHARED.heard) return (SHARED.heard.pressed ??= pressed);
  const before = SHARED.before ?? chosenNow(controls, "[aria-expanded=false]");
  SHARED.before = null;
  const found = (SHARED.heard = { pressed, before });
  requestAnimationFrame(() => {
    SHARED.heard = null;
    if (!found.answered) answer(found);
  });
}

// Show what a button was pressed for, or what a control shows other than before.
function answer({ pressed, before }) {
  const { controls } = SHARED;
  if (pressed) return choose(pressed, controls.buttons[pressed]);
  const now = chosenNow(controls);
  const turned = (key) => now[key] !== before[key] && choose(key, controls.names[key][now[key]]) !== null;
  Object.keys(now).some(turned);
}

// The words that each control shows: of lists those that are in a state, as a selector.
function chosenNow({ names }, state = "") {
  const found = {};
  for (const key of Object.keys(names)) {
    const control = document.querySelector(`.st-key-${key}`);
    const radio =
      control?.querySelector("[role=radio][aria-checked=true]") ??
      control?.querySelector("input[type=radio]:checked")?.closest("label");
    const words = radio?.textContent ?? control?.querySelector(`input[role=combobox]${state}`)?.value;
    if (words !== undefined) found[key] = words;
  }
  return found;
}

// The control that a click chooses by, and the scheme; null beside the controls.
function clickedIn(target, { buttons, names }) {
  const pressed = target.closest?.("button:not(:disabled), [role=option]");
  if (!pressed) return null;
  // An open list lies elsewhere in the page.
  const isOption = pressed.role === "option";
  const own = isOption ? document.querySelector("input[role=combobox][aria-expanded=true]") : pressed;
  const keyIn = (table) => own && Object.keys(table).find((key) => own.closest(`.st-key-${key}`));
  const key = keyIn(names);
  if (key) return { key, pressed, scheme: names[key][pressed.textContent] };
  const button = keyIn(buttons);
  return button ? { key: button, pressed, scheme: buttons[button], isButton: true } : null;
}

// Show a scheme that a control has chosen, and return whether it is shown; null where it was before. The
// choices are those beside the scheme that the server knows: after a first one only the same control's still
// hold.
function choose(key, scheme) {
  const { controls } = SHARED;
  const hand = SHARED.hands.get(controls.chart);
  if (!hand || scheme === hand.data.scheme) return null;
  const holds = controls.by === key || (!controls.by && hand.data.scheme === controls.scheme);
  controls.by = key;
  const variant = holds && scheme && variantOf(scheme);
  if (variant) return hand.pageChoice.make(scheme, variant);
  hand.pageChoice.leave();
  return false;
}
