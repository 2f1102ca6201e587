// A page's own controls, drawn from data: see `controls/bar.js`.

import { Bar } from "./controls/bar.js";
import { readPacked, tuckAway } from "./page/component.js";

export default function ({ data, parentElement, setTriggerValue }) {
  const bar = (parentElement.quantvizBar ??= new Bar(parentElement));
  const known = readPacked(data);
  bar.update(known, setTriggerValue);
  if (known.answers) tuckAway(parentElement, true);
  return () => {
    bar.close();
    delete parentElement.quantvizBar;
  };
}
