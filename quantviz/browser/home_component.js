// What one plays with on the front door: see `home/play.js`.

import { Play } from "./home/play.js";
import { showLasting } from "./page/component.js";

export default function (component) {
  return showLasting(Play, component);
}
