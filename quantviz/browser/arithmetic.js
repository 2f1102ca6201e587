// The arithmetic of a scheme in the browser: what Python wrote of it, run on a tensor.

import { makeLayout } from "./arithmetic/blocks.js";
import { makeMetrics, metricsOf, momentsOf } from "./arithmetic/moments.js";
import { ROUNDING } from "./arithmetic/rounding.js";
import { levelsOf, makeArithmetic, paramsOf, quantizeTensor, unpacked } from "./arithmetic/quantizing.js";

export default function arithmetic() {
  return {
    ROUNDING,
    levelsOf,
    makeArithmetic,
    makeLayout,
    makeMetrics,
    metricsOf,
    momentsOf,
    paramsOf,
    quantizeTensor,
    unpacked,
  };
}
