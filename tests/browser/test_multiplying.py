"""A small layer multiplied in Chromium beside the reference: the same bits of its sides and outputs."""

import base64

import numpy as np
import pytest
import torch

from quantviz.browser import read_script
from quantviz.compiled.javascript import packed_together
from quantviz.lab.layer_state import AS_IT_IS, INPUTS, WEIGHTS, SchemePair
from quantviz.layers.changes import Changes
from quantviz.layers.layer_picture import NOISE, layer_picture
from quantviz.layers.layer_result import layer
from quantviz.layers.operands import held_back_tokens
from quantviz.schemes.calibration import ManualRange
from quantviz.schemes.granularity import Flat, PerBlock, PerGroup
from quantviz.schemes.recipes import as_scheme
from tests.helpers.browser_arithmetic import coded, side_of

TOKENS, INPUTS_EACH, OUTPUTS = SHAPE = (16, 64, 9)
CHANNEL, SIZE, WEIGHT = 5, 17.5, (3, 5, -2.25)
SCRIPT = """
const NAMES = ["product", "weights", "inputs", "cross", "y", "error", "yHat"];
window.multiply = ({programs, cases, shape, noise}) => {
  const text = bytes => btoa(String.fromCharCode(...bytes));
  const coded = array => text(new Uint8Array(array.buffer, array.byteOffset, array.byteLength));
  const read = (coded, Kind) => new Kind(Uint8Array.from(atob(coded), c => c.charCodeAt(0)).buffer);
  const made = unpacked(programs);
  return cases.map(({ sides, values, calibration, change }) => {
    const side = each => each && makeSide({ ...each, program: made[each.program] });
    const [held, bias] = [read(values.held, Uint8Array), read(values.bias, Float64Array)];
    let [x, w] = [read(values.x, Float32Array), read(values.w, Float32Array)];
    if (change) {
      const [channel, size, [output, input, value]] = change;
      const base = Float32Array.from({ length: shape[0] }, (_, t) => x[t * shape[1] + channel]);
      x = withChannel(x, base, channel, size, shape[1]);
      w[output * shape[1] + input] = value;
    }
    const ofInputs = quantizedSide(side(sides[1]), x, held, calibration);
    const ofWeight = quantizedSide(side(sides[0]), w, new Uint8Array(shape[2]));
    if (ofInputs.refused || ofWeight.refused) return { refused: [ofInputs.refused, ofWeight.refused] };
    const [xHat, wHat] = [ofInputs.x_hat, ofWeight.x_hat];
    const cells = multiplied({ x, xHat, w, wHat, bias }, shape);
    const { used, heldBack, shares } = errorsOf(cells, held, shape[2]);
    return {
      arrays: [xHat, wHat, ...NAMES.map(name => cells[name])].map(coded),
      numbers: [used, heldBack, shares.weights, shares.inputs, shares.cross],
      noise: [...noiseOf({ x, w }, shape, noise).y],
    };
  });
};
"""


def pairs():
    """Each scheme of either side that fits, beside the other side's usual one."""
    found = [SchemePair(weights, "int8_per_tensor") for weights in (*WEIGHTS, AS_IT_IS)]
    found += [SchemePair("int8_per_row", inputs) for inputs in (*INPUTS, AS_IT_IS)]
    found += [SchemePair("int4_per_row", inputs, static=False) for inputs in INPUTS]
    ranged = as_scheme("int4_per_tensor").replace(calibration=ManualRange(-2.5, 2.5))
    found.append(SchemePair("int4_per_tensor", str(ranged)))
    int4, nvfp4 = as_scheme("int4_per_tensor"), as_scheme("nvfp4")
    for granularity in (PerGroup(2, axis=0), PerGroup(4, axis=0), PerBlock(4, 16), Flat(128)):
        found += [SchemePair("int4_per_row", str(int4.replace(granularity=granularity)))]
    found += [SchemePair("int4_per_row", str(nvfp4.replace(granularity=PerGroup(16, axis=0))))]
    return [pair for pair in found if pair.problem(SHAPE) is None]


def arrays_of(result):
    cells = result.cells()
    everything = slice(None)
    sides = (result.inputs.quantized(everything), result.weights.quantized(everything))
    parts = (cells.product, cells.weights, cells.inputs, cells.cross, cells.y, cells.error, cells.y_hat)
    return [each.contiguous().numpy() for each in (*sides, *parts)]


@pytest.fixture(scope="module")
def operands():
    generator = torch.Generator().manual_seed(5)
    weight = torch.randn(OUTPUTS, INPUTS_EACH, generator=generator) * 0.3
    x = torch.randn(TOKENS, INPUTS_EACH, generator=generator)
    x[:, CHANNEL] *= 20
    # Louder than what scales are chosen on.
    x[held_back_tokens(TOKENS, 0)] *= 8
    return weight, x, torch.randn(OUTPUTS, generator=generator).double()


def test_the_browser_multiplies_as_the_reference(blank_with, operands):
    weight, x, bias = operands
    programs, cases, wanted = [], [], []
    changed = Changes().with_channel(CHANNEL, SIZE).with_weight(*WEIGHT).changed(weight, x)
    for pair in pairs():
        weights, inputs = pair.schemes()
        result = layer(weight, x, weights, inputs, bias, static=pair.static)
        held = result.held_back
        sides = [
            side_of(weights, (OUTPUTS, INPUTS_EACH), False, programs),
            side_of(inputs, (TOKENS, INPUTS_EACH), pair.static, programs),
        ]
        values = {"x": coded(x), "w": coded(weight), "bias": coded(bias), "held": coded(held.byte())}
        case = {"sides": sides, "values": values, "calibration": None, "change": None}
        cases.append(case)
        wanted.append(result)
        cases.append({**case, "change": (CHANNEL, SIZE, WEIGHT)})
        wanted.append(layer(*changed, weights, inputs, bias, static=pair.static))
        if inputs is not None and inputs.search is None:
            ranged = inputs.replace(calibration=ManualRange(-1.75, 1.75))
            cases.append({**case, "calibration": {"id": "manual_range", "lo": -1.75, "hi": 1.75}})
            wanted.append(layer(weight, x, weights, ranged, bias, static=pair.static))
    page = blank_with(read_script("layer_hand_component") + SCRIPT)
    given = {"programs": packed_together(programs), "cases": cases, "shape": SHAPE, "noise": NOISE}
    answers = page.evaluate("given => multiply(given)", given)
    assert len(answers) > 60
    for answer, result in zip(answers, wanted, strict=True):
        assert "arrays" in answer, (result, answer)
        for got, expected in zip(answer["arrays"], arrays_of(result), strict=True):
            assert base64.b64decode(got) == expected.tobytes(), result
        shares = [result.parts[name].share.held_back for name in ("weights", "inputs", "cross")]
        numbers = [*result.rel_out, *shares]
        assert np.allclose(answer["numbers"], numbers, rtol=1e-12, atol=1e-15), result
        printed = layer_picture(result, (2, 5), (0, 6), (1, 4), "error", 64).y.noise
        noise = np.reshape(answer["noise"], (TOKENS, OUTPUTS))[2:5, 1:4]
        assert np.allclose(noise, printed, rtol=1e-12, atol=0), result
