// The Lab's ruler, whose handles change the scheme or a value: see `hand/hand.js`.

import { SHARED, readPacked } from "./page/component.js";
import { Hand } from "./hand/hand.js";

export default function ({ data, parentElement, setTriggerValue }) {
  const known = readPacked(data);
  const hand = (parentElement.quantvizHand ??= new Hand(parentElement));
  hand.update(known, setTriggerValue);
  SHARED.hands.set(known.chart, hand);
  return () => {
    if (SHARED.hands.get(known.chart) === hand) SHARED.hands.delete(known.chart);
    hand.close();
    delete parentElement.quantvizHand;
  };
}
