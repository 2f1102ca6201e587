// The board of a bug in the gallery: see `gallery/board.js`.

import { Board } from "./gallery/board.js";
import { showLasting } from "./page/component.js";

export default function (component) {
  return showLasting(Board, component);
}
