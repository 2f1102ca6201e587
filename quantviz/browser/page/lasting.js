// A component that lasts: made when it is first shown, told of what is new after that, and closed at its end.

import { readPacked } from "./packed.js";

export function showLasting(Made, { data, parentElement, setTriggerValue }) {
  const known = readPacked(data);
  if (parentElement.quantvizMade) parentElement.quantvizMade.update(known, setTriggerValue);
  else parentElement.quantvizMade = new Made(parentElement, known, setTriggerValue);
  return () => {
    parentElement.quantvizMade?.close();
    delete parentElement.quantvizMade;
  };
}
