// The Lab's ruler, whose handles change the scheme or a value: see `hand/hand.js`.

import { lasting } from "./page/component.js";
import { Hand } from "./hand/hand.js";

export default lasting(Hand);
