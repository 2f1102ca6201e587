// What the server finds out about the curve of the error after the ruler is shown: see `hand/curve.js`.

import { completeCurve } from "./hand/curve.js";
import { SHARED, readPacked } from "./page/component.js";

export default function ({ data }) {
  const found = readPacked(data);
  SHARED.curves.set(found.chart, found);
  const hand = SHARED.hands.get(found.chart);
  if (hand) completeCurve(hand);
}
