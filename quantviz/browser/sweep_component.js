// GPTQ's sweep over the columns of a weight, under a slider: see `sweep/sweep.js`.

import { showLasting } from "./page/component.js";
import { Sweep } from "./sweep/sweep.js";

export default function (component) {
  return showLasting(Sweep, component);
}
