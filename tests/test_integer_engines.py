"""Integer layers give what the engines' own kernels give, and the reference page says so."""

import dataclasses
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest

import quantviz as qv
from quantviz.layers import integer_result
from tests.engines.integer import MODULES, litert, module_of, operators
from tests.engines.integer.__main__ import BEGIN, END, README, compared, lines

_PROCESSOR = Path("/proc/cpuinfo")
#: On an x86 processor without VNNI the packages add u8·s8 in 16 bits: `saturation.npz` keeps such answers.
pytestmark = pytest.mark.skipif(
    not _PROCESSOR.exists() or "vnni" not in _PROCESSOR.read_text(encoding="utf-8"),
    reason="the recorded table is of a processor with VNNI",
)
#: The end of the names of kernels whose accumulators lie next to a tie.
TIES = "accumulators next to a tie"
PATHS = [(name, path) for name in MODULES for path in module_of(name).PATHS]


@pytest.fixture(scope="module")
def found():
    """What each module's kernels answered: the lines of the table, and what was compared."""
    return {name: list(lines(name)) for name in MODULES}


@pytest.mark.parametrize("name", MODULES)
def test_no_code_differs(found, name):
    for line, tally in found[name]:
        assert tally.example == "", line
        assert tally.configurations >= 20, line


def test_the_page_has_what_was_compared(found):
    text = README.read_text(encoding="utf-8")
    written = text.partition(BEGIN)[2].partition(END)[0].strip().splitlines()[2:]
    assert written == [line for name in MODULES for line, _ in found[name]], "python -m tests.engines.integer"


def test_every_engine_is_held_to_a_kernel():
    assert {path.arithmetic.strip("`") for _, path in PATHS} >= set(qv.INTEGER_ENGINES)


#: Fields of engines, a value that an engine does not have, and a kernel whose answers then differ.
CHANGED = (
    ("onnxruntime", "scale_product", "float64", f"QGemm, {TIES}"),
    ("onnxruntime", "limits_before", "none", f"QGemm, {TIES}"),
    (
        "litert_reference",
        "scale_product_by_output",
        "float32",
        "CONV_2D, reference, accumulators next to a tie",
    ),
    (
        "litert_reference_connected",
        "sum_wraps",
        False,
        "FULLY_CONNECTED, reference, accumulators next to a tie",
    ),
    ("litert_ruy", "scale_product", "float64", f"FULLY_CONNECTED, ruy, {TIES}"),
    ("xnnpack", "limits_before", "none", f"FULLY_CONNECTED, XNNPACK, {TIES}"),
    ("xnnpack", "six", "away", f"FULLY_CONNECTED, XNNPACK, {TIES}"),
    ("fbgemm", "limits_before", "both", "quantized.linear, fbgemm"),
    ("fbgemm", "bias", "int32", "quantized.linear, fbgemm"),
    ("qnnpack", "output_scale", "division", "quantized.linear, qnnpack"),
    ("onednn", "zero_point", "after_rounding", "quantized.linear, onednn"),
    ("onednn", "limits_before", "none", "quantized.linear, onednn"),
    (
        "litert_16x8",
        "requantization",
        qv.REQUANTIZATIONS["float64"],
        "CONV_2D 16×8, reference",
    ),
    (
        "litert_16x8_connected",
        "requantization",
        qv.REQUANTIZATIONS["fixed_point_16"],
        "FULLY_CONNECTED 16×8, reference",
    ),
    ("onnxruntime_avx2", "pairs", "exact", "QGemm, AVX2 (recorded)"),
    ("fbgemm_avx2", "pairs", "exact", "quantized.linear, fbgemm, AVX2 (recorded)"),
)


@pytest.mark.parametrize(("engine", "field", "value", "kernel"), CHANGED)
def test_a_changed_field_is_seen(monkeypatch, engine, field, value, kernel):
    changed = dataclasses.replace(qv.INTEGER_ENGINES[engine], **{field: value})
    monkeypatch.setattr(
        integer_result, "INTEGER_ENGINES", MappingProxyType({**qv.INTEGER_ENGINES, engine: changed})
    )
    (path,) = [path for _, path in PATHS if path.name == kernel]
    assert compared(path).differences


def test_roundings_are_told_apart():
    """Each engine's answers differ from those of every other way to round."""
    kernels = (
        "QGemm",
        "CONV_2D, reference",
        "FULLY_CONNECTED, reference",
        "CONV_2D, ruy",
        "CONV_2D, XNNPACK",
    )
    named = {path.name: path for _, path in PATHS}
    for kernel in kernels:
        path = named[f"{kernel}, accumulators next to a tie"]
        own = qv.INTEGER_ENGINES[path.arithmetic.strip("`")]
        for way in qv.REQUANTIZATIONS.values():
            if way == own.requantization:
                continue
            other = dataclasses.replace(own, requantization=way)
            with pytest.MonkeyPatch.context() as patch:
                engines = MappingProxyType({**qv.INTEGER_ENGINES, own.id: other})
                patch.setattr(integer_result, "INTEGER_ENGINES", engines)
                assert compared(path).differences, (kernel, way)


@pytest.mark.parametrize("kernels", litert._KERNELS, ids=lambda each: each[0])
def test_averages_round_half_away_and_do_not_overflow(kernels):
    """apache/tvm 20298, rebuilt: a converter cut averages off, half of all were wrong by it, and
    17 × 17 codes of 32767 wrapped around.
    """
    draw = np.random.default_rng(4)
    for codes, kind in (
        (draw.integers(-128, 128, (400, 9)), "int8"),
        (np.full((2, 17 * 17), 32767), "int16"),
        (draw.integers(-(2**15), 2**15, (40, 17 * 17)), "int16"),
    ):
        case = operators.Case((codes,), ((0.01, 0),), (0.01, 0), kind)
        theirs = litert._operated(case, "average", kernels[1])
        assert operators.ours(case, "average", "litert_pool").tolist() == theirs.tolist()
        if kind == "int8":
            assert 0.4 < (np.trunc(codes.mean(1)) != theirs).mean() < 0.6


#: Kernels of operators between layers, and the arithmetic of another engine, whose codes differ.
OTHERS = (
    ("QLinearMul", "mul", "litert"),
    ("MUL, reference", "mul", "xnnpack"),
    ("MUL, XNNPACK", "mul", "onnxruntime"),
    ("QLinearConcat", "concat", "litert"),
    ("CONCATENATION, ruy", "concat", "onnxruntime"),
    ("QLinearSigmoid", "sigmoid", "litert"),
    ("LOGISTIC, reference", "sigmoid", "onnxruntime"),
    ("LOGISTIC, XNNPACK", "sigmoid", "litert"),
    ("QLinearSoftmax", "softmax", "litert"),
    ("IntLayerNorm and QuantAct", "layer_norm", "fbgemm"),
)


@pytest.mark.parametrize(("kernel", "operator", "other"), OTHERS)
def test_operators_are_told_apart(kernel, operator, other):
    (path,) = [path for _, path in PATHS if path.name == kernel]
    cases = [case for case in path.cases() if operator != "concat" or case.kind == "uint8"]
    another = dataclasses.replace(
        path, cases=lambda: cases, ours=lambda case: operators.ours(case, operator, other)
    )
    assert compared(another).differences
