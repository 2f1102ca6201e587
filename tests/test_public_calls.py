"""What a wrong argument of a public function gets: a sentence, whatever it is and whatever it is for."""

import dataclasses
import inspect

import numpy as np
import pytest
import torch

import quantviz as qv
from quantviz.public_calls import kinds_of
from tests.helpers.public_calls import WRONG, X, refused_or_answered, right_calls
from tests.helpers.sample import sample_of

FUNCTIONS = [
    name for name in qv.__all__ if callable(getattr(qv, name)) and not isinstance(getattr(qv, name), type)
]
#: What is not tried: calls that are the caller's own, and raise what they like, and an address that is waited
#: for.
UNTRIED = {
    ("audit", "report", "a class"),
    ("audit", "report", "a function"),
    ("compare_runs", "report", "a class"),
    ("compare_runs", "report", "a function"),
    ("scan", "scheduler", "a text"),
}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """A text that is taken for a path makes a file there."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def calls(tmp_path_factory):
    return right_calls(tmp_path_factory.mktemp("public"))


def test_the_right_calls_are_of_every_function(calls):
    assert sorted(calls) == sorted(FUNCTIONS)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_a_parameter_wants_is_known(name):
    function = getattr(qv, name)
    assert kinds_of(function).keys() == inspect.signature(function).parameters.keys()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_right_call_is_answered(calls, name):
    getattr(qv, name)(**calls[name])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("wrong", sample_of(WRONG, 4))
def test_a_wrong_argument_gets_a_sentence(calls, wrong):
    refused = 0
    for name in FUNCTIONS:
        function = getattr(qv, name)
        for parameter in inspect.signature(function).parameters:
            if (name, parameter, wrong) not in UNTRIED:
                arguments = {**calls[name], parameter: WRONG[wrong]()}
                refused += refused_or_answered(function, **arguments) is not None
    assert refused > 40


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("wrong", sample_of(WRONG, 4))
def test_a_wrong_value_in_parameters_gets_a_sentence(wrong):
    for field in dataclasses.fields(qv.QParams):
        for scheme in ("int8_per_tensor", "nvfp4", "int8,asymmetric,per_tensor,min_max,course"):
            params = qv.QParams(**{"scale": 0.5, field.name: WRONG[wrong]()})
            refused_or_answered(qv.quantize, X, scheme, qparams=params)
            refused_or_answered(qv.measure, X, scheme, qparams=params)
            refused_or_answered(qv.dequantize, [1, 2], scheme, params)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("wrong", sample_of(WRONG, 4))
def test_a_wrong_value_in_a_table_gets_a_sentence(calls, wrong):
    rows, table = calls["report"]["table"], calls["allocate"]["table"]
    for column in (*rows[0], "effective_bits", "kurtosis", "content", "low", "high", "max_error"):
        made = WRONG[wrong]
        refused_or_answered(qv.report, [{**row, column: made()} for row in rows])
        refused_or_answered(qv.allocate, {**table, column: [made(), made()]}, budget_bits=512)
        refused_or_answered(qv.allocate, {**table, column: [made(), made()]}, bits_per_weight=8)
        refused_or_answered(qv.allocate, {**table, column: made()}, budget_bits=512)


def test_a_refusal_names_the_argument_and_the_way_out():
    with pytest.raises(qv.QuantVizError, match=r"pinned of allocate.*got list.*Give Mapping\[str, str\]"):
        qv.allocate({"tensor": []}, pinned=[1])
    with pytest.raises(qv.QuantVizError, match="allocation of export_allocation"):
        qv.export_allocation(X, "json")
    with pytest.raises(qv.QuantVizError, match=r"table of tensors.*got Tensor"):
        qv.report(X)
    # Python's own errors of a call stay its own.
    with pytest.raises(TypeError, match="missing"):
        qv.quantize(X)
    with pytest.raises(TypeError, match="unexpected"):
        qv.quantize(X, "int4", sheme=3)


def test_a_truth_value_of_numpy_is_one():
    assert qv.quantize([1.0], "int8_per_tensor", strict=np.True_).q.tolist() == [127]


def test_the_largest_whole_numbers_are_quantized():
    x = torch.tensor([2**64 - 1, 0], dtype=torch.uint64)
    assert qv.quantize(x, "int8_per_tensor").q.tolist() == [127, 0]
