// The knobs of a small layer, which the picture of its multiplication follows: see
// `multiplication/layer_hand.js`.

import { showLasting } from "./page/component.js";
import { LayerHand } from "./multiplication/layer_hand.js";

export default function (component) {
  return showLasting(LayerHand, component);
}
