// The schemes that the page's controls lead to: see `hand/controls.js`.

import { readPacked, tuckAway } from "./page/component.js";
import { learnControls, listenToControls } from "./hand/controls.js";

listenToControls();

export default function ({ data, parentElement, setTriggerValue }) {
  learnControls(readPacked(data), setTriggerValue);
  tuckAway(parentElement, true);
}
