// What one plays with on the front door: see `home/play.js`.

import { readPacked } from "./page/packed.js";
import { Play } from "./home/play.js";

export default function ({ data, parentElement, setTriggerValue }) {
  const known = readPacked(data);
  if (parentElement.quantvizPlay) parentElement.quantvizPlay.update(known, setTriggerValue);
  else parentElement.quantvizPlay = new Play(parentElement, known, setTriggerValue);
  return () => {
    parentElement.quantvizPlay?.close();
    delete parentElement.quantvizPlay;
  };
}
