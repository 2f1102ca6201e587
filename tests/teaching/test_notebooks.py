"""The source notebooks' printed numbers, reproduced through the public interface.

Through the notebooks' own function names: `test_course.py`.
"""

import math

import pytest
import torch

import quantviz as qv
from tests.helpers.notebooks import ITEMS, assert_printed, read_input

OPS = ("qparams", "quantize", "quantize_dequantize", "mse", "error", "l2_norm_error")
#: Accidents of the notebooks (int8 wraparound, division by zero, silent per-tensor); what happens instead is
#: tested below.
ACCIDENTS = {
    "s0_const",
    "s1_const",
    "s1_perchannel_1d",
    "s2_In47_q",
    "s2_In47_xhat",
    "s2_In47_err",
    "s3_In9",
    "s3_In52",
}
TENSOR_3X3 = [[191.6, -13.5, 728.6], [92.14, 295.5, -184], [0, 684.6, 245.5]]


def test_the_items_are_all_there():
    assert len(ITEMS) == 84
    assert len([item for item in ITEMS if item["call"]["op"] in OPS and item["id"] not in ACCIDENTS]) == 60


def read_scheme(item):
    call = item["call"].get("qparams", item["call"])
    if call["op"] == "given":
        return qv.Scheme(
            call["format"], "asymmetric", calibration=qv.Given(call["scale"], call["zero_point"])
        )
    granularity = {
        "tensor": lambda: qv.PerTensor(),
        "axis": lambda: qv.PerChannel(call["axis"]),
        "group": lambda: qv.PerGroup(call["group"], call["axis"]),
    }[call.get("granularity", "tensor")]()
    convention = qv.CONVENTIONS["course"]
    if call["math"] == "float32":
        convention = convention.replace(scale_math="float32", scale_dtype="float32")
    return qv.Scheme(call["format"], call["mode"], granularity, convention=convention)


def answer(item):
    r = qv.quantize(read_input(item), read_scheme(item))
    call = item["call"]
    return {
        "qparams": lambda: getattr(r.qparams, call.get("want", "scale")),
        "quantize": lambda: r.q,
        "quantize_dequantize": lambda: r.x_hat,
        "mse": lambda: qv.metrics(r)["mse"],
        "error": lambda: -r.error if call.get("sign") == "x-xhat" else r.error,
        "l2_norm_error": lambda: qv.metrics(r)["l2_norm_error"],
    }[call["op"]]()


@pytest.mark.parametrize(
    "item",
    [item for item in ITEMS if item["call"]["op"] in OPS and item["id"] not in ACCIDENTS],
    ids=lambda item: item["id"],
)
def test_printed_number(item):
    assert_printed(item, answer(item))


@pytest.mark.parametrize(
    "item", [item for item in ITEMS if item["call"]["op"] == "range"], ids=lambda item: item["id"]
)
def test_printed_code_range(item):
    fmt = qv.FORMATS[item["call"]["format"]]
    expected = {"quant_min": fmt.code_min, "quant_max": fmt.code_max, "both": [fmt.code_min, fmt.code_max]}[
        item["call"]["what"]
    ]
    assert expected == item["expected"]


@pytest.mark.parametrize("format_id", qv.FORMATS)
@pytest.mark.parametrize("value", [5.0, -5.0, 1e-8, 3.7, 1e-30])
def test_a_constant_tensor_is_reproduced_within_one_step(format_id, value):
    fmt = qv.FORMATS[format_id]
    for mode in qv.MODES:
        if mode == "asymmetric" and fmt.kind != "integer":
            with pytest.raises(qv.QuantVizError, match="zero point"):
                qv.Scheme(format_id, mode)
        elif mode == "symmetric" and fmt.code_max < 1:
            with pytest.raises(qv.QuantVizError, match="positive code"):
                qv.Scheme(format_id, mode)
        elif mode == "symmetric" and value < 0 and not fmt.signed:
            r = qv.quantize([value] * 3, qv.Scheme(format_id, mode))
            assert r.clipped.all()
            assert [note.key for note in r.notes] == ["negatives_clip"]
        else:
            r = qv.quantize([value] * 3, qv.Scheme(format_id, mode))
            assert (r.error.abs() <= r.step_of_cells()).all()


def test_per_channel_on_one_axis_is_one_scale_per_element():
    r = qv.quantize([1.0, -2.0, 3.0], qv.Scheme("int8", granularity=qv.PerChannel(0)))
    assert r.qparams.scale.tolist() == pytest.approx([1 / 127, 2 / 127, 3 / 127])
    assert r.q.tolist() == [127, -127, 127]


def test_codes_saturate_instead_of_wrapping():
    r = qv.quantize(TENSOR_3X3, qv.Scheme("int8", calibration=qv.Given(728.6 / 255)))
    assert r.q.tolist() == [[67, -5, 127], [32, 103, -64], [0, 127, 86]]
    given = qv.quantize(TENSOR_3X3, qv.Scheme("int8", "asymmetric", calibration=qv.Given(3.5, -70)))
    assert given.x_hat.tolist() == [[192.5, -14.0, 689.5], [91.0, 294.0, -185.5], [0.0, 686.0, 245.0]]


@pytest.mark.parametrize("format_id", [name for name, fmt in qv.FORMATS.items() if fmt.kind == "integer"])
def test_the_format_asked_for_is_the_format_used(format_id):
    fmt = qv.FORMATS[format_id]
    r = qv.quantize(TENSOR_3X3, qv.Scheme(format_id, "asymmetric"))
    assert str(r.q.dtype) == f"torch.{fmt.code_dtype}"
    assert r.q.min() == fmt.code_min
    assert r.q.max() == fmt.code_max


def test_groups_of_three_lie_in_the_notebooks_band():
    item = next(item for item in ITEMS if item["id"] == "s3_In52")
    errors = [
        qv.metrics(
            qv.quantize(torch.rand(6, 6, generator=torch.Generator().manual_seed(seed)), read_scheme(item))
        )["mse"]
        for seed in range(20)
    ]
    assert all(item["tolerance"]["min"] <= error <= item["tolerance"]["max"] for error in errors)
    assert not math.isclose(errors[0], errors[1])
