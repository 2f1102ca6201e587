// The Lab's ruler, whose handles change the scheme or a value: see `hand/hand.js`.

import { readPacked } from "./page/component.js";
import { Hand } from "./hand/hand.js";

export default function ({ data, parentElement, setTriggerValue }) {
  const hand = (parentElement.quantvizHand ??= new Hand(parentElement));
  hand.update(readPacked(data), setTriggerValue);
  return () => {
    hand.close();
    delete parentElement.quantvizHand;
  };
}
