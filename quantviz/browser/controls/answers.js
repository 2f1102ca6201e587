// What the choices in a page's controls lead to, which the server has sent before: a hand shows it at once.

import { SHARED } from "../page/component.js";

// Take what the server says of them. What schemes quantize with stays as long as the tensor does.
export function hearAnswers(answers, send) {
  const known = SHARED.answers;
  const quantizers = known?.setting === answers.setting ? known.quantizers : new Map();
  SHARED.answers = { ...answers, quantizers, send };
  for (const variant of Object.values(answers.schemes)) variant.told = { ...answers.told, ...variant.told };
  // It may have been opened before the page could hear of it.
  ask(document.activeElement);
  answeringHand()?.pageChoice.prepare();
}

export function answeringHand() {
  return SHARED.hands.get(SHARED.answers?.chart);
}

// A hand or a key has come to a control: a list is about to be opened, or a press to end, whose answer is
// waited for.
export function touched({ target }) {
  ask(target);
  answeringHand()?.ruler?.lookWhetherSeen();
}

// Ask for the choices of a long list.
function ask(target) {
  const { lists = [], names = {}, send, asked } = SHARED.answers ?? {};
  const field = target?.closest?.("[data-field]")?.dataset.field;
  if (!field || field in names || field === asked || !lists.some((each) => field.startsWith(each))) return;
  SHARED.answers.asked = field;
  send("opened", field);
}
