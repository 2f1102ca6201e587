"""The built-in tensors are what the page says about them."""

import json
from pathlib import Path

import torch

import quantviz as qv
from quantviz.sources import Builtin
from quantviz.sources.builtin import BUILTINS

DATA = Path(__file__).parents[1] / "data"
INT4 = qv.Scheme("int4", "symmetric")


def test_literals_have_two_decimals_and_can_be_checked_by_hand():
    for row in BUILTINS["loud_column"].literal:
        assert all(round(value, 2) == value for value in row)


def test_one_loud_column_silences_the_rest():
    result = qv.quantize(Builtin("loud_column").tensor(), INT4)
    others = [column for column in range(8) if column != 5]
    assert int((result.q[:, others] != 0).sum()) == 3
    assert bool((result.q[:, 5] != 0).all())
    per_column = qv.quantize(result.x, qv.Scheme("int4", "symmetric", granularity=qv.PerChannel(axis=1)))
    assert int((per_column.q != 0).sum()) > 50


def test_the_first_cell_says_what_the_design_promises():
    result = qv.quantize(Builtin("loud_column").tensor(), INT4)
    assert float(result.x[6, 5]) == torch.tensor(23.02)
    assert round(float(result.qparams.scale), 3) == 3.289
    assert float(result.x[2, 3]) == torch.tensor(-1.35)
    assert round(-1.35 / 3.289, 2) == -0.41
    assert (int(result.q[2, 3]), float(result.x_hat[2, 3]), round(float(result.error[2, 3]), 2)) == (
        0,
        0.0,
        1.35,
    )
    assert round(float(result.error.abs().max()), 2) == 1.64


def test_the_notebooks_tensors_are_the_printed_ones():
    items = json.loads((DATA / "notebooks_expected.json").read_text(encoding="utf-8"))
    inputs = {item["id"]: item["input"] for item in items}
    for name, id_ in {
        "course_3x3": "s0_In28",
        "course_4x4_a": "s0_In74",
        "course_4x4_b": "s3_In25_q",
        "course_4x4_c": "s3_In30",
        "course_w8a32": "s3_In57_q",
        "course_vector": "s4_In48",
    }.items():
        assert torch.equal(Builtin(name).tensor(), torch.tensor(inputs[id_], dtype=torch.float32)), name
    drawn = torch.randn(3, 3, generator=torch.Generator().manual_seed(0))
    assert torch.equal(Builtin("course_randn_3x3").tensor(), drawn)


def test_the_picture_has_grey_levels_and_bands_at_two_bits():
    picture = Builtin("picture").tensor()
    assert 0 <= float(picture.min()) < 0.2
    assert 0.9 < float(picture.max()) <= 1
    assert torch.equal(torch.round(picture * 255) / 255, picture)
    assert len(picture.unique()) > 100
    assert len(qv.quantize(picture, qv.Scheme("uint2", "asymmetric")).x_hat.unique()) == 4


def test_the_real_weight_has_loud_columns():
    weight = Builtin("real_weight").tensor()
    columns = weight.norm(dim=0)
    assert float(columns.max() / columns.median()) > 2.5
    per_tensor = qv.metrics(qv.quantize(weight, INT4))["sqnr_db"]
    per_column = qv.metrics(
        qv.quantize(weight, qv.Scheme("int4", "symmetric", granularity=qv.PerChannel(axis=1)))
    )["sqnr_db"]
    assert per_column > per_tensor + 2


def test_shapes_are_known_before_the_tensor():
    for name, entry in BUILTINS.items():
        assert tuple(Builtin(name).tensor().shape) == entry.shape
