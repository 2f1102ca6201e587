// Component without a picture of its own: it ties the picture of a layer's multiplication to the page.

import { showLasting, tuckAway } from "./page/component.js";
import { Multiplication } from "./multiplication/multiplication.js";

export default function (component) {
  tuckAway(component.parentElement, true);
  return showLasting(Multiplication, component);
}
