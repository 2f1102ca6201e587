"""Integer layers in Chromium beside the reference: the same codes, and the same steps of a cell."""

import base64

import numpy as np
import pytest

import quantviz as qv
from quantviz.browser import read_script
from quantviz.compiled.javascript import packed_together
from quantviz.layers.integer_engines import ACTIVATIONS
from quantviz.layers.integer_javascript import numbers_of, write_integers
from tests.engines.integer.layers import layers, near_ties, tied_sixes, with_real_biases
from tests.engines.integer.torch_linear import saturating_layers
from tests.helpers.browser_arithmetic import LOAD, coded

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


def result_of(engine, layer):
    given = {} if layer.bias is None else {"bias_codes": layer.bias}
    if layer.real_bias is not None:
        given = {"bias": layer.real_bias}
    return qv.integer_layer(
        qv.Codes(layer.q_w, layer.s_w, layer.z_w, layer.w_format),
        qv.Codes(layer.q_x, layer.s_x, layer.z_x, layer.x_format),
        qv.QParams(layer.s_y, layer.z_y),
        engine=engine,
        number_format=layer.x_format,
        activation=layer.activation,
        **given,
    )


def asked(engine):
    """The layers of an engine with the cells whose steps are compared, and what the browser is given."""
    results, programs, cases = [], {}, []
    for layer in drawn(engine):
        result = result_of(engine, layer)
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
def page(browser):
    page = browser.new_page()
    page.goto("about:blank")
    joined = read_script("arithmetic/integers") + read_script("arithmetic/quantizing")
    page.evaluate(LOAD, joined + SCRIPT)
    yield page
    page.close()


@pytest.mark.parametrize("engine", qv.INTEGER_ENGINES)
def test_codes_and_steps_are_those_of_the_reference(page, engine):
    results, given = asked(engine)
    answers = page.evaluate("given => run(given)", given)
    assert len(results) > 50
    for (result, cells), answer in zip(results, answers, strict=True):
        q = np.frombuffer(base64.b64decode(answer["q"]), np.int32).reshape(result.q.shape)
        assert np.array_equal(q, result.q.numpy()), (result, np.argwhere(q != result.q.numpy())[:5])
        for cell, steps in zip(cells, answer["steps"], strict=True):
            same_steps(steps, result.explain(*cell).steps)


def same_steps(got, wanted):
    assert [step["key"] for step in got] == [step.key for step in wanted]
    for mine, step in zip(got, wanted, strict=True):
        assert (mine["name"], mine["line"], mine["dtype"]) == (step.name, step.code_line, step.dtype)
        assert mine["read"] == dict(step.inputs), step
        assert mine["value"] == step.output, step
