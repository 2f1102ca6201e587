"""Integer layers in Chromium beside the reference: the same codes, and the same steps of a cell."""

import base64
import itertools
import json

import numpy as np
import pytest
import torch

import quantviz as qv
from quantviz.browser import read_script
from quantviz.compiled.javascript import packed_together
from quantviz.lab.layer_state import ASYMMETRIC
from quantviz.layers.changes import Changes
from quantviz.layers.integer_engines import ACTIVATIONS
from quantviz.layers.integer_javascript import numbers_of, write_integers, write_steps
from quantviz.layers.integers_of_layer import integers_of
from quantviz.layers.layer_result import layer
from quantviz.schemes.recipes import as_scheme
from tests.engines.integer.layers import layers, near_ties, tied_sixes, with_real_biases
from tests.engines.integer.torch_linear import saturating_layers
from tests.helpers.browser_arithmetic import coded, side_of

SCRIPT = """
window.run = ({ cases, ...programs }) => {
  const made = unpacked(programs).map(makeArithmetic);
  const codes = text => new Int32Array(Uint8Array.from(atob(text), c => c.charCodeAt(0)).buffer);
  return cases.map(({ program, x, w, shape, numbers, cells }) => {
    const result = integerLayer(made[program], { x: codes(x), w: codes(w), shape, numbers });
    const bytes = new Uint8Array(result.q.buffer);
    let q = "";
    for (let i = 0; i < bytes.length; i += 32768) q += String.fromCharCode(...bytes.subarray(i, i + 32768));
    return { q: btoa(q), steps: cells.map(cell => integerSteps(made[program], result, ...cell)) };
  });
};
"""
#: Engines of layers that the page multiplies: JavaScript has no sums of 64 bits.
ENGINES = [name for name, engine in qv.INTEGER_ENGINES.items() if engine.sums == "int32"]


def drawn(engine):
    """Layers of codes of the sizes and ends that engines are asked of, that the engine can multiply."""
    rules = qv.INTEGER_ENGINES[engine]
    if rules.pairs == "saturated":
        yield from layers("uint8", "int8", activations=ACTIVATIONS)
        yield from saturating_layers()
        yield from near_ties("uint8", by_output=True)
    else:
        yield from layers("int8", "int8", activations=ACTIVATIONS)
        yield from layers("uint8", "uint8", weight_zeros=True, activations=ACTIVATIONS)
        yield from (*near_ties("int8"), *near_ties("int8", by_output=True), *tied_sixes())
    if rules.bias == "real":
        yield from with_real_biases(layers("uint8", "int8"))


def result_of(engine, codes):
    given = {} if codes.bias is None else {"bias_codes": codes.bias}
    if codes.real_bias is not None:
        given = {"bias": codes.real_bias}
    return qv.integer_layer(
        qv.Codes(codes.q_w, codes.s_w, codes.z_w, codes.w_format),
        qv.Codes(codes.q_x, codes.s_x, codes.z_x, codes.x_format),
        qv.QParams(codes.s_y, codes.z_y),
        engine=engine,
        number_format=codes.x_format,
        activation=codes.activation,
        **given,
    )


def asked(engine):
    """The layers of an engine with the cells whose steps are compared, and what the browser is given."""
    results, programs, cases = [], {}, []
    for each in drawn(engine):
        result = result_of(engine, each)
        program = write_integers(result)
        tokens, _, outputs = result.shape
        cells = {(0, 0), (tokens - 1, outputs - 1), (tokens // 2, outputs // 2)}
        results.append((result, sorted(cells)))
        case = {"x": coded(result.inputs.codes), "w": coded(result.weights.codes), "shape": result.shape}
        place = programs.setdefault(id(program), (len(programs), program))[0]
        cases.append({**case, "program": place, "numbers": numbers_of(result), "cells": sorted(cells)})
    together = packed_together(program for _, program in programs.values())
    return results, {**together, "cases": cases}


@pytest.fixture(scope="module")
def page(blank_with):
    return blank_with(read_script("arithmetic/integers") + read_script("arithmetic/quantizing") + SCRIPT)


@pytest.mark.parametrize("engine", ENGINES)
def test_codes_and_steps_are_those_of_the_reference(page, engine):
    results, given = asked(engine)
    answers = json.loads(page.evaluate("given => JSON.stringify(run(JSON.parse(given)))", json.dumps(given)))
    assert len(results) > 50
    for (result, cells), answer in zip(results, answers, strict=True):
        q = np.frombuffer(base64.b64decode(answer["q"]), np.int32).reshape(result.q.shape)
        assert np.array_equal(q, result.q.numpy()), (result, np.argwhere(q != result.q.numpy())[:5])
        for cell, steps in zip(cells, answer["steps"], strict=True):
            same_steps(steps, result.explain(*cell).steps)


HAND = """
window.follow = ({ cases, shape, values, ...packed }) => {
  const programs = unpacked(packed);
  const read = (coded, Kind) => new Kind(Uint8Array.from(atob(coded), c => c.charCodeAt(0)).buffer);
  const side = each => makeSide({ ...each, program: programs[each.program] });
  const [held, bias] = [read(values.held, Uint8Array), read(values.bias, Float64Array)];
  return cases.map(({ sides, known, change, cell }) => {
    const [x, w] = [read(values.x, Float32Array), read(values.w, Float32Array)];
    w[change[0] * shape[1] + change[1]] = change[2];
    const ofInputs = quantizedSide(side(sides[1]), x, held);
    const ofWeight = quantizedSide(side(sides[0]), w, new Uint8Array(shape[2]));
    const added = known.bias ? bias : bias.map(() => 0);
    const own = { x, xHat: ofInputs.x_hat, w, wHat: ofWeight.x_hat, bias: added };
    const shown = { ...multiplied(own, shape), ofInputs, ofWeight };
    const found = integerCell(makeIntegers(known, programs), shown, { shape, held, bias: added, cell });
    return { ...found, x: [...found.x], w: [...found.w] };
  });
};
"""
PAIRS = (
    ("int8_per_row", "int8_per_tensor", True),
    ("int8_per_tensor", "int8_per_tensor", False),
    ("int8_per_row", ASYMMETRIC, True),
)


def test_the_steps_of_an_output_follow_a_weight(blank_with):
    """Every engine on a layer whose weight was changed: codes, scales, biases and steps of the reference."""
    shape = (11, 33, 6)
    generator = torch.Generator().manual_seed(3)
    weight = torch.randn(shape[2], shape[1], generator=generator) * 0.3
    x = torch.randn(shape[0], shape[1], generator=generator)
    bias = torch.randn(shape[2], generator=generator).double()
    change, cell = (4, 7, 2.75), (2, 4)
    changed = Changes().with_weight(*change).changed(weight, x)
    programs, cases, wanted = [], [], []
    for number, (engine, pair) in enumerate(itertools.product(ENGINES, PAIRS)):
        weights, inputs, static = (as_scheme(pair[0]), as_scheme(pair[1]), pair[2])
        found = layer(*changed, weights, inputs, bias * (number % 2), static=static)
        given = {"number_format": ("int8", "uint8")[number // 2 % 2], "activation": ACTIVATIONS[number % 3]}
        integers = integers_of(found, engine=engine, **given)
        facts, own = write_steps(found, integers)
        held = found.held_back
        places = {name: len(programs) + at for at, name in enumerate(own)}
        programs += own.values()
        sides = [side_of(weights, weight.shape, False, programs)]
        sides.append(side_of(inputs, x.shape, static, programs))
        cases.append({"sides": sides, "known": {**facts, **places}, "change": change, "cell": cell})
        wanted.append(integers.explain(*cell))
    values = {"x": coded(x), "w": coded(weight), "bias": coded(bias), "held": coded(held.byte())}
    page = blank_with(read_script("layer_hand_component") + HAND)
    given = {**packed_together(programs), "cases": cases, "shape": shape, "values": values}
    answers = json.loads(
        page.evaluate("given => JSON.stringify(follow(JSON.parse(given)))", json.dumps(given))
    )
    for got, why in zip(answers, wanted, strict=True):
        assert (got["x"], got["w"], got["q"]) == (why.q_x.tolist(), why.q_w.tolist(), why.q)
        assert got["numbers"] == dict(why.given)
        same_steps(got["steps"], why.steps)


def same_steps(got, wanted):
    assert [step["key"] for step in got] == [step.key for step in wanted]
    for mine, step in zip(got, wanted, strict=True):
        assert (mine["name"], mine["line"], mine["dtype"]) == (step.name, step.code_line, step.dtype)
        assert mine["read"] == dict(step.inputs), step
        assert mine["value"] == step.output, step
