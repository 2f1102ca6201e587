// A method's parameter under a slider, with its pictures at every value: see `dial/dial.js`.

import { showLasting } from "./page/component.js";
import { Dial } from "./dial/dial.js";

export default function (component) {
  return showLasting(Dial, component);
}
