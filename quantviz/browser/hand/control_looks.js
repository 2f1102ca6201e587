// How the page's own controls look while the browser is ahead of the server.

import { SHARED } from "../page/component.js";

// Where what is chosen is told in words: the range in the sidebar, and a note.
const TOLD = "summary strong, [data-testid=stAlertContainer] p";

// Have the controls show a scheme as they will once the server has answered.
export function showOnControls(scheme) {
  const { granularity, ...words } = SHARED.known?.schemes.get(scheme)?.shown ?? {};
  for (const [key, chosen] of Object.entries(words)) {
    const control = document.querySelector(`.st-key-${key}`);
    for (const radio of control?.querySelectorAll("[role=radio]") ?? [])
      markRadio(radio, radio.textContent === chosen);
    const list = control?.querySelector("input[role=combobox][aria-expanded=false]");
    if (list && list.value !== chosen) list.value = chosen;
    const told = control?.querySelector(TOLD)?.firstChild;
    if (told && told.nodeValue !== chosen) told.nodeValue = chosen;
  }
  if (granularity) pressButton(granularity);
}

function markRadio(radio, isChosen) {
  if (radio.getAttribute("aria-checked") === String(isChosen)) return;
  radio.setAttribute("aria-checked", isChosen);
  radio.toggleAttribute("data-selected", isChosen);
}

// Give a button of the granularity's the look of the pressed one, which gets that of a button beside it. The
// server's answer puts others in their places.
function pressButton(key) {
  const button = document.querySelector(`.st-key-${key} button`);
  const pressed = document.querySelector(".st-key-granularity_buttons button[kind=primary]");
  if (!button || !pressed || button === pressed) return;
  for (const name of ["class", "kind", "data-testid"]) {
    const look = button.getAttribute(name);
    button.setAttribute(name, pressed.getAttribute(name));
    pressed.setAttribute(name, look);
  }
}
