"""An unknown name is answered in some lines: the nearest names of its registry, and how to list all."""

import re
from pkgutil import resolve_name

import pytest

import quantviz as qv
from quantviz.checkpoints.profiles import PROFILES, profile_named
from quantviz.layers.built_in import BUILT_IN_LAYERS, BuiltInLayer
from quantviz.layers.methods.chain import METHODS, as_chain
from quantviz.quantization.integer_operators import OPERATORS
from quantviz.schemes.conventions import FIELDS
from quantviz.text import languages

PARAMS = qv.QParams(1.0)
ONE = qv.Codes([[1]], 1.0)


def scheme(part):
    return lambda name: qv.Scheme.parse(part.format(name))


#: By a registry's name: how a name of it is asked for, and its names.
ASKED = {
    "recipes": (lambda name: qv.quantize([1.0], name), qv.ALL_RECIPES),
    "formats": (qv.Scheme, qv.FORMATS),
    "modes": (scheme("int8,{},per_tensor,min_max,course"), qv.MODES),
    "granularities": (scheme("int8,symmetric,{},min_max,course"), qv.GRANULARITIES),
    "calibrations": (scheme("int8,symmetric,per_tensor,{},course"), qv.CALIBRATIONS),
    "conventions": (scheme("int8,symmetric,per_tensor,min_max,{}"), qv.CONVENTIONS),
    "fields": (lambda name: qv.CONVENTIONS["course"].replace(**{name: 1}), FIELDS),
    "metrics": (lambda name: qv.measure([1.0], "int8_per_tensor", metrics=[name]), qv.METRICS),
    "methods": (as_chain, METHODS),
    "engines": (lambda name: qv.integer_layer(ONE, ONE, qv.QParams(1.0), engine=name), qv.INTEGER_ENGINES),
    "arithmetics": (lambda name: qv.requantize([1], 0.5, arithmetic=name), qv.REQUANTIZATIONS),
    "operators": (lambda name: qv.integer_operator(name, [[1]], [PARAMS], PARAMS), OPERATORS),
    "profiles": (profile_named, {each.name for each in PROFILES.values()}),
    "layers": (lambda name: BuiltInLayer(name).open(), BUILT_IN_LAYERS),
    "tensors": (
        lambda name: qv.QuantVizError("checkpoint.no_such_tensor", got=name, known=", ".join(TENSORS)),
        (TENSORS := [f"model.layers.{i}.self_attn.{part}_proj.weight" for i in range(99) for part in "qkv"]),
    ),
}


def answer(ask, name):
    try:
        found = ask(name)
    except qv.QuantVizError as problem:
        found = problem
    assert isinstance(found, qv.QuantVizError)
    return found


@pytest.mark.parametrize("registry", ASKED)
def test_the_nearest_names_are_named_and_the_way_to_all(registry):
    ask, names = ASKED[registry]
    for right in names if registry != "tensors" else TENSORS[::50]:
        problem = answer(ask, f"{right}zq")
        assert len(str(problem)) < 450
        assert right in str(problem)
        in_words = [problem.message(language) for language in languages()]
        if len(", ".join(names)) <= 120:
            assert all(each in str(problem) for each in names)
            continue
        assert all(f"{len(names)}" in each for each in in_words)
        if registry in ("layers", "tensors"):
            continue
        for words in in_words:
            (way,) = re.findall(r"(?:list|print)\((quantviz[\w.]+)\)", words)
            assert set(resolve_name(way)) == set(names)


def test_a_list_of_a_line_is_told_whole_and_an_empty_one_is_none():
    assert str(qv.QuantVizError("unknown_mode", got="x", known="a, b")).endswith("one of a, b.")
    assert "of ." in str(qv.QuantVizError("unknown_mode", got="x", known=""))
