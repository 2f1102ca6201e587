// The picture of a layer's multiplication, as a component.

import { Multiplication } from "./multiplication/multiplication.js";
import { lasting } from "./page/component.js";

export default lasting(Multiplication);
