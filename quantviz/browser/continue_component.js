// Where a person who returns was last: a link to the lesson and one to the Lab. Each page leaves its place in
// the browser (`quantviz/ui/shell/address.py`).

import { filled } from "./ruler/figures.js";
import { tuckAway } from "./page/component.js";

export default function ({ data, parentElement, setTriggerValue }) {
  const kept = { ...readPlaces(data.key), ...data.here };
  const found = Object.entries(kept)
    .filter(([page, place]) => place?.name && data.labels[page])
    .toSorted(([, a], [, b]) => (b.at ?? Infinity) - (a.at ?? Infinity));
  parentElement.querySelector(".qv-continue")?.remove();
  tuckAway(parentElement, !found.length);
  // On a phone it stands above the doors, and the picture makes room for it.
  document.querySelector(".st-key-home")?.toggleAttribute("data-returns", found.length > 0);
  if (!found.length) return;
  const line = document.createElement("nav");
  line.className = "qv-continue";
  line.setAttribute("aria-label", data.title);
  line.append(Object.assign(document.createElement("style"), { textContent: continueRules(data.colors) }));
  line.append(Object.assign(document.createElement("b"), { textContent: data.title }));
  for (const [page, { name, step, parameters }] of found) {
    const link = document.createElement("a");
    const address = new URLSearchParams({ ...parameters, lang: data.language });
    link.href = `${data.pages[page]}?${address}`;
    link.textContent = filled(data.labels[page], { name, step });
    link.addEventListener("click", (event) => {
      if (event.metaKey || event.ctrlKey || event.shiftKey) return;
      event.preventDefault();
      setTriggerValue("go", { page, parameters: parameters ?? null });
    });
    line.append(link);
  }
  parentElement.append(line);
}

// What the pages have left in this browser; nothing where it keeps nothing.
function readPlaces(key) {
  try {
    const places = JSON.parse(window.localStorage.getItem(key) ?? "{}");
    return places && typeof places === "object" ? places : {};
  } catch {
    return {};
  }
}

function continueRules({ muted, handle }) {
  return `
    .qv-continue { display: flex; flex-wrap: wrap; gap: 0 14px; align-items: baseline;
      font-size: var(--qv-14); color: ${muted}; }
    .qv-continue b { font-weight: 600; }
    .qv-continue a { color: ${handle}; text-decoration: none; min-height: 24px; padding-block: 4px;
      overflow-wrap: anywhere; }
    .qv-continue a:hover { text-decoration: underline; }
    .qv-continue a:focus-visible { outline: 2px solid ${handle}; outline-offset: 2px; border-radius: 3px; }
    @media (pointer: coarse) { .qv-continue a { padding-block: 12px; } }
  `;
}
