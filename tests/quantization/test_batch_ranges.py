"""Ranges over batches, beside the observers of torch and onnxruntime on the same batches."""

import contextlib
import io

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from onnxruntime.quantization.calibrate import HistogramCollector
from onnxruntime.quantization.quant_utils import compute_scale_zp
from torch.ao.quantization.observer import HistogramObserver, MinMaxObserver, MovingAverageMinMaxObserver

import quantviz as qv
from quantviz.cli import quantviz as command
from quantviz.figures.line_plots import range_curve
from quantviz.layers.layer_numbers import ranges_over_tokens
from quantviz.quantization import batch_ranges
from quantviz.quantization.batch_ranges import OBSERVERS

SYMMETRIC = "int8,symmetric,per_tensor,min_max,course"
ASYMMETRIC = "int8,asymmetric,per_tensor,min_max,course"


def drawn(seed, batches=9):
    """Batches whose ranges grow, shrink, and at times lie on one side of 0."""
    draw = torch.Generator().manual_seed(seed)
    widths = torch.rand(batches, generator=draw) * 3 + 0.2
    shifts = torch.randn(batches, generator=draw)
    return [torch.randn(40, 17, generator=draw) * w + s for w, s in zip(widths, shifts, strict=True)]


CASES = {
    "drawn": drawn(1),
    "others": drawn(2),
    "positive": [x.abs() for x in drawn(3)],
    "first of one value": [torch.full((5,), 2.5), *drawn(4, 4)],
    "first of zeros": [torch.zeros(5), *drawn(5, 4)],
    "wider by far": [x * 7.0**k for k, x in enumerate(drawn(6, 4))],
    "one value": [torch.tensor([float(k)]) for k in (3, 3, 4, -1)],
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    ("name", "observer"),
    [
        ("min_max", MinMaxObserver),
        ("moving_average", MovingAverageMinMaxObserver),
        ("histogram", HistogramObserver),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_the_ranges_are_torch_s(case, name, observer):
    found = qv.ranges_over_batches(CASES[case], name, ASYMMETRIC, orders=1)
    theirs = observer()
    for count, batch in enumerate(CASES[case]):
        theirs(batch)
        ends = theirs._non_linear_param_search() if name == "histogram" else (theirs.min_val, theirs.max_val)
        assert (found.lo[count].item(), found.hi[count].item()) == tuple(map(float, ends)), count


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("scheme", [SYMMETRIC, ASYMMETRIC])
@pytest.mark.parametrize("name", ["percentile", "entropy"])
def test_the_ranges_are_onnxruntime_s(case, scheme, name):
    theirs = HistogramCollector(
        name, scheme == SYMMETRIC, 2048 if name == "percentile" else 128, 128, 99.999, ""
    )
    ends = []
    with contextlib.redirect_stdout(io.StringIO()):
        for batch in CASES[case]:
            theirs.collect({"x": batch.numpy()})
            # Its search takes seconds, and with more bins minutes.
            if name == "entropy" and len(theirs.get_histogram_dict()["x"][0]) > 800:
                break
            low, high, *_ = theirs.compute_collection_result()["x"]
            ends.append((float(low), float(high)))
    assert ends
    found = qv.ranges_over_batches(CASES[case][: len(ends)], name, scheme, orders=1)
    assert list(zip(found.lo.tolist(), found.hi.tolist(), strict=True)) == ends


@pytest.mark.parametrize("value", [2.5, -2.5, 0.3])
def test_a_percentile_of_one_value_has_onnxruntimes_scale(value):
    """Its range ends a bin below the value where it starts."""
    found = qv.ranges_over_batches([torch.full((7,), value)] * 3, "percentile", ASYMMETRIC, orders=2)
    ends = (each[-1].float().numpy() for each in (found.lo, found.hi))
    wanted = compute_scale_zp(*ends, np.array(-128, np.int8), np.array(127, np.int8))[1]
    assert found.scale.tolist() == pytest.approx([wanted.item()] * 3, rel=1e-6)
    symmetric = qv.ranges_over_batches([torch.full((7,), value)], "percentile", SYMMETRIC, orders=1)
    assert symmetric.scale[0].item() == pytest.approx(abs(value) / 127, rel=1e-3)


def test_the_same_values_in_other_batches_have_another_scale():
    """NVIDIA/Model-Optimizer 619, rebuilt: six pictures, calibrated 1, 2, 3 or 6 at a time. onnxruntime's
    entropy takes the width of its bins from the first batch.
    """
    draw = np.random.default_rng(0)
    values = torch.from_numpy(
        (draw.laplace(size=(6, 3000)) * draw.uniform(0.3, 2, (6, 1))).astype(np.float32)
    )
    scales = {}
    for size in (1, 2, 3, 6):
        theirs = HistogramCollector("entropy", False, 128, 128, 99.999, "")
        with contextlib.redirect_stdout(io.StringIO()):
            for batch in values.split(size):
                theirs.collect({"x": batch.numpy()})
            low, high, *_ = theirs.compute_collection_result()["x"]
        found = qv.ranges_over_batches(values.split(size), "entropy", ASYMMETRIC, orders=1)
        assert (found.lo[-1].item(), found.hi[-1].item()) == (low, high)
        scales[size] = found.scale[-1].item()
        of_ends = qv.ranges_over_batches(values.split(size), "min_max", ASYMMETRIC, orders=1)
        assert of_ends.hi[-1].item() == values.max().item()
    assert max(scales.values()) > 1.1 * min(scales.values())


def test_the_scale_is_that_of_the_range_and_its_spread_that_of_other_orders():
    batches = drawn(7)
    found = qv.ranges_over_batches(batches, "moving_average", ASYMMETRIC, orders=6, seed=3)
    for lo, hi, scale in zip(found.lo, found.hi, found.scale, strict=True):
        ends = torch.stack([lo, hi]).float().unsqueeze(0)
        assert qv.quantize(ends, qv.Scheme.parse(ASYMMETRIC)).qparams.scale.item() == scale.item()
    assert bool((found.least_scale <= found.scale).all() & (found.scale <= found.most_scale).all())
    assert found.most_scale[0] > found.least_scale[0]
    whole = qv.ranges_over_batches(batches, "min_max", ASYMMETRIC, orders=6)
    assert whole.least_scale[-1] == whole.most_scale[-1] == whole.scale[-1]
    assert whole.settled > 1
    means = qv.ranges_over_batches(batches, "mean", ASYMMETRIC, orders=1)
    # onnxruntime's ReduceMin has an array of one value for each batch.
    assert means.lo[-1].item() == np.nanmean([[x.numpy().min()] for x in batches], axis=0)[0]


def test_what_cannot_be_observed_is_refused():
    batches = drawn(8, 2)
    for wrong in (
        {"batches": []},
        {"batches": [torch.empty(0)]},
        {"batches": [torch.tensor([float("nan")])]},
        {"observer": "median"},
        {"scheme": "int8_per_row"},
        {"scheme": "fp8_e4m3_per_tensor"},
        {"orders": 0},
        {"observer": "entropy", "batches": CASES["wider by far"]},
    ):
        with pytest.raises(qv.QuantVizError):
            qv.ranges_over_batches(**{"batches": batches, **wrong})


@pytest.mark.parametrize("observer", OBSERVERS)
def test_the_command_prints_a_row_for_each_batch(tmp_path, observer):
    np.save(tmp_path / "x.npy", torch.cat(drawn(9, 3)).numpy())
    asked = ["ranges", str(tmp_path / "x.npy"), "--batch", "40", "--observer", observer, "--format", "json"]
    answer = CliRunner().invoke(command, asked)
    assert answer.exit_code == 0, answer.output
    assert answer.stdout.count('"least_scale"') == 3
    assert "3 batches" in answer.stderr


def test_searches_are_bounded_and_the_way_out_fits(monkeypatch):
    monkeypatch.setattr(batch_ranges, "_MOST_SEARCHES", 8)
    with pytest.raises(qv.QuantVizError, match="Take 2 orders") as refused:
        qv.ranges_over_batches(drawn(4, 4), "entropy", orders=3)
    assert qv.ranges_over_batches(drawn(4, 4), "entropy", orders=refused.value.params["orders"]).orders == 2
    assert qv.ranges_over_batches(drawn(4, 4), "percentile", orders=3).orders == 3


def test_the_curve_has_the_spread_around_the_scale_and_where_it_settles():
    found = qv.ranges_over_batches(drawn(5, 6), orders=4)
    least, most, scale = range_curve(found, height=200).to_dict()["data"]
    for trace, values in ((least, found.least_scale), (most, found.most_scale), (scale, found.scale)):
        assert list(trace["y"]) == values.tolist()
    assert most["fill"] == "tonexty"
    assert range_curve(found, height=200).to_dict()["layout"]["shapes"][0]["x0"] == found.settled


def test_a_layers_scale_after_all_batches_is_its_own():
    torch.manual_seed(0)
    w, x = torch.randn(8, 6), torch.randn(40, 6)
    result = qv.layer(w, x, None, "int8_per_tensor")
    found = ranges_over_tokens(result)
    assert found.scale[-1].item() == pytest.approx(result.inputs.study.qparams.scale.item(), rel=1e-6)
    assert len(found.scale) == 16
    assert ranges_over_tokens(qv.layer(w, x, None, "int8_per_token")) is None
    assert ranges_over_tokens(qv.layer(w, x, None, "int8_per_tensor", static=False)) is None


def test_the_command_draws_a_page(tmp_path):
    np.save(tmp_path / "x.npy", torch.cat(drawn(9, 3)).numpy())
    asked = ["ranges", str(tmp_path / "x.npy"), "--batch", "40", "-o", str(tmp_path / "curve.html")]
    answer = CliRunner().invoke(command, asked)
    assert answer.exit_code == 0, answer.output
    assert "settled after" in (tmp_path / "curve.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("scheme", [ASYMMETRIC, SYMMETRIC])
@pytest.mark.parametrize(
    ("observer", "batches", "key"),
    [
        # Bins of the first one's width up to the second: 80 million of them, and with 1e-20 more than memory.
        ("percentile", ([1e-4, 2e-4], [8.0]), "observers.bins"),
        ("percentile", ([1e-20, 2e-20], [1.0]), "observers.bins"),
        ("entropy", ([1e-20], [1.0]), "observers.bins"),
        ("entropy", ([1e-44], [1.0]), "observers.bins"),
        ("histogram", ([3e38, -3e38], [1.0]), "range_beyond_float32"),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_batches_that_no_histogram_holds_are_refused(observer, batches, key, scheme):
    with pytest.raises(qv.QuantVizError) as refused:
        qv.ranges_over_batches([torch.tensor(batch) for batch in batches], observer, scheme, orders=1)
    assert refused.value.key == key


def test_a_batch_of_two_neighbouring_numbers_is_refused():
    narrow = torch.tensor([1.0, 1.0 + 2.0**-23])
    with pytest.raises(qv.QuantVizError, match="too narrow for float32"):
        qv.ranges_over_batches([narrow], "percentile", SYMMETRIC)
