// Have the lists of engines and recipes find names as people type them. Streamlit filters such a list by what
// is in its box: before it hears of it, that becomes the part of a name that is meant.
import { spelledAsNamed } from "./page/typed_names.js";

if (!window.__quantvizNameSearch) {
  window.__quantvizNameSearch = true;
  const setValue = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set;
  window.addEventListener(
    "input",
    (event) => {
      const box = event.target;
      const { lists, separators } = window.__quantvizNames;
      const names = box.role === "combobox" && lists[box.getAttribute("aria-label")];
      if (!names || event.isComposing) return;
      const meant = spelledAsNamed(box.value, names, separators);
      if (meant !== box.value) setValue.call(box, meant);
    },
    { capture: true },
  );
}
