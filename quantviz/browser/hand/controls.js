// The page's controls of the scheme, answered before the server is asked. The server has sent the scheme that
// each choice leads to.

import { SHARED } from "../page/component.js";
import { hearNumbers } from "./number_fields.js";

// Take what the server says of the controls, and say what is missing.
export function learnControls({ setting, schemes, texts, ...controls }, send) {
  if (SHARED.known?.setting !== setting)
    SHARED.known = { setting, schemes: new Map(), texts: new Map(), quantizers: new Map() };
  const { known } = SHARED;
  for (const [number, text] of Object.entries(texts)) known.texts.set(Number(number), text);
  for (const [name, variant] of Object.entries(schemes))
    known.schemes.set(name, { ...variant, told: { ...controls.told, ...variant.told } });
  SHARED.controls = { ...controls, send, by: null };
  const wanted = Object.values(controls.names).flatMap(Object.values);
  const there = ({ program }) => known.texts.has(program.text);
  if (!wanted.every((name) => known.schemes.has(name) && there(known.schemes.get(name))))
    send("missing", true);
  // It may have been opened before the page could hear of it.
  opened({ target: document.activeElement });
  prepare(wanted);
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

// Answer the controls that `controls/bar.js` draws, and listen to fields of numbers, once a page.
export function listenToControls() {
  if (SHARED.answer) return;
  Object.assign(SHARED, { answer, slide });
  const options = { capture: true, passive: true };
  for (const name of ["change", "keydown"]) window.addEventListener(name, hearNumbers, options);
  for (const name of ["focusin", "pointerdown"]) window.addEventListener(name, opened, options);
  window.addEventListener("pointerdown", begins, options);
}

// Ask for the choices of a long list that is about to be opened.
function opened({ target }) {
  const { lists = [], names = {}, send, asked } = SHARED.controls ?? {};
  const key = target?.closest?.("[data-field]")?.dataset.field;
  const isLong = key && lists.some((each) => key.startsWith(each));
  if (!isLong || key in names || key === asked) return;
  SHARED.controls.asked = key;
  send("opened", key);
}

// What takes a look at the page is looked at before a press ends: its answer is waited for.
function begins({ target }) {
  if (target.closest?.("[data-field]")) SHARED.hands.get(SHARED.controls?.chart)?.ruler?.lookWhetherSeen();
}

// Show the scheme that a control has chosen. The choices are those beside the scheme that the server knows:
// after a first one only the same control's still hold.
function answer(field, form) {
  const { controls } = SHARED;
  const hand = SHARED.hands.get(controls?.chart);
  const scheme = controls?.names[field]?.[form];
  if (!hand) return;
  const holds = controls.by === field || (!controls.by && hand.data.scheme === controls.scheme);
  if (holds && scheme === hand.data.scheme) return;
  controls.by = field;
  const variant = holds && scheme && variantOf(scheme);
  if (variant) hand.pageChoice.make(scheme, variant);
  else hand.pageChoice.leave();
}

// Move what a slider of bits moves as a hand on the ruler does, and let go where it `ends`. Returns whether
// the hand tells the server.
function slide(field, form, ends) {
  const hand = SHARED.hands.get(SHARED.controls?.chart);
  const at = hand ? hand.data.bits.findIndex((each) => hand.data.variants[each].format === form) : -1;
  if (at < 0) return false;
  const { moving } = hand;
  if (ends) hand.release({ kind: "bits", at });
  else hand.move({ kind: "bits", at });
  return moving;
}
