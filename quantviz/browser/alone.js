// A page without a server: what Python wrote into it, brought to life.

import { Frames } from "./alone/frames.js";
import { LayerPage } from "./alone/layer.js";
import { TensorPage } from "./alone/tensor.js";

const KINDS = { tensor: TensorPage, layer: LayerPage, frames: Frames, apart: Frames };

window.quantvizPage = new KINDS[window.quantvizParts.kind](window.quantvizParts);
