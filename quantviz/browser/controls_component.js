// A page's own controls, drawn from data: see `controls/bar.js`.

import { Bar } from "./controls/bar.js";

export default function ({ data, parentElement, setTriggerValue }) {
  const bar = (parentElement.quantvizBar ??= new Bar(parentElement));
  bar.update(data, setTriggerValue);
  return () => {
    bar.close();
    delete parentElement.quantvizBar;
  };
}
