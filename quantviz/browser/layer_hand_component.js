// The hand in the picture of a layer, as a component.

import { LayerHand } from "./multiplication/layer_hand.js";
import { lasting } from "./page/component.js";

export default lasting(LayerHand);
