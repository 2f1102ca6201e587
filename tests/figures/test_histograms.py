"""The histograms count every cell once, in bins that mean something."""

import numpy as np
import plotly.graph_objects as go
import pytest
import torch

import quantviz as qv
from quantviz.evaluation.histogram_bins import ERROR_BINS, MOST_BINS, PARTS
from quantviz.figures.histograms import histogram_data, histogram_figure
from quantviz.figures.theme import THEMES
from quantviz.lab.scenarios import SCENARIOS
from quantviz.text import languages
from tests.helpers.drawn import normal
from tests.helpers.panels import decoded


def counted(field):
    return decoded(field).sum()


def results():
    x = normal(24, 16)
    for name in ("int2", "uint4", "int8", "int16"):
        for mode in qv.MODES:
            for granularity in (qv.PerTensor(), qv.PerChannel(0), qv.PerGroup(4)):
                for calibration in (qv.MinMax(), qv.Percentile(90.0), qv.ManualRange(-0.5, 0.7)):
                    yield qv.quantize(x, qv.Scheme(name, mode, granularity, calibration))
    for scenario in SCENARIOS.values():
        yield qv.quantize(scenario.source.tensor(), scenario.scheme)


ALL = [pytest.param(r, id=f"{i}-{r.scheme}") for i, r in enumerate(results())]


@pytest.mark.parametrize("r", ALL)
def test_every_cell_is_counted_once(r):
    data = histogram_data(r)
    zeroed = int(((r.x != 0) & (r.x_hat == 0) & ~r.clipped).sum())
    for bars in (data.values, data.errors):
        assert bars.totals.sum() == data.cells == r.x.numel()
        assert bars.counts["clipped"].sum() == int(r.clipped.sum())
        assert bars.counts["zeroed"].sum() == zeroed
        assert tuple(bars.counts) == PARTS
        assert (np.diff(bars.edges) > 0).all()
        assert len(bars.edges) == len(bars.totals) + 1


@pytest.mark.parametrize("r", ALL)
def test_a_bin_counts_the_values_between_its_ends(r):
    data = histogram_data(r)
    x = r.x.double().numpy().ravel()
    assert 1 <= len(data.values.totals) <= MOST_BINS + 1
    # A value on an end may fall to either side by a float's last bit.
    width = data.values.edges[1] - data.values.edges[0]
    for i, total in enumerate(data.values.totals):
        low, high = data.values.edges[i], data.values.edges[i + 1]
        surely = ((x > low + 1e-3 * width) & (x < high - 1e-3 * width)).sum()
        possibly = ((x >= low - 1e-3 * width) & (x <= high + 1e-3 * width)).sum()
        assert surely <= total <= possibly


def test_with_one_scale_and_few_codes_the_bins_are_the_codes():
    r = qv.quantize(normal(64, 64), qv.Scheme("int4", "asymmetric", calibration=qv.Percentile(97.0)))
    bars = histogram_data(r).values
    assert bars.codes_per_bin == 1
    kept = bars.counts["kept"] + bars.counts["zeroed"]
    for code, count in zip(bars.codes.tolist(), kept.tolist(), strict=True):
        assert count == int(((r.q == code) & ~r.clipped).sum())
    outside = (bars.codes < -8) | (bars.codes > 7)
    assert (kept[outside] == 0).all()
    assert bars.counts["clipped"][~outside].sum() == 0
    scale, zero_point = r.qparams.scale.item(), r.qparams.zero_point.item()
    assert bars.edges[:-1] == pytest.approx((bars.codes - 0.5 - zero_point) * scale)


def test_many_codes_share_a_bin_that_begins_with_the_first_code():
    r = qv.quantize(normal(64, 64), qv.Scheme("int16", calibration=qv.Percentile(99.0)))
    bars = histogram_data(r).values
    assert bars.codes_per_bin > 1
    assert bars.codes_per_bin & (bars.codes_per_bin - 1) == 0
    assert ((bars.codes - r.scheme.code_min) % bars.codes_per_bin == 0).all()


def test_clipped_errors_stand_at_the_ends():
    r = qv.quantize(normal(64, 64), qv.Scheme("int4", calibration=qv.Percentile(90.0)))
    errors = histogram_data(r).errors
    assert errors.totals[0] == int((r.clipped & (r.error < 0)).sum())
    assert errors.totals[-1] == int((r.clipped & (r.error > 0)).sum())
    assert errors.counts["clipped"][1:-1].sum() == 0
    assert errors.edges[1:-1] == pytest.approx(np.linspace(-0.5, 0.5, ERROR_BINS + 1))


def test_rounding_spreads_the_error_evenly():
    errors = histogram_data(qv.quantize(normal(256, 256), qv.Scheme("int8"))).errors
    inner = errors.totals[1:-1]
    assert inner.min() > 0.85 * inner.mean()


@pytest.mark.parametrize(
    ("form", "coded"),
    [
        ("int4,symmetric,per_group(size=32),min_max,gguf_signed", True),
        ("uint4,asymmetric,per_group(size=32),min_max,gguf_minimum", True),
        ("uint4,asymmetric,per_group(size=32),min_max,hqq", True),
        ("uint4,asymmetric,per_group(size=32),min_max,torchao_tinygemm", True),
        ("float4_e2m1fn,symmetric,per_group(size=32),min_max,microxcaling", False),
        ("nf4,symmetric,flat(size=64),min_max,bitsandbytes", False),
    ],
)
def test_bins_are_codes_where_codes_are_equal_steps(form, coded):
    x = normal(1, 32)
    x[0, 3] = 4.0  # the extreme is positive: a negative scale under gguf_signed
    r = qv.quantize(x, qv.Scheme.parse(form))
    data = histogram_data(r)
    bars = data.values
    assert (bars.codes is not None) == coded
    assert (np.diff(bars.edges) > 0).all()
    assert bars.totals.sum() == 32
    if coded:
        for code, total in zip(
            bars.codes.tolist(), (bars.counts["kept"] + bars.counts["zeroed"]).tolist(), strict=True
        ):
            assert total == int(((r.q == code) & ~r.clipped).sum())
    kept = r.x_hat[~r.clipped]
    low, high = data.reached_by_some
    assert low <= kept.min().item() + 1e-5
    assert high >= kept.max().item() - 1e-5


def test_what_codes_reach():
    data = histogram_data(
        qv.quantize([[1.0, -7.0], [14.0, 0.0]], qv.Scheme("int4", granularity=qv.PerChannel(0)))
    )
    assert data.reached_by_all == (-8.0, 7.0)
    assert data.reached_by_some == (-16.0, 14.0)
    apart = qv.quantize(
        [[10.0, 11.0], [-10.0, -11.0]],
        qv.Scheme("uint4", "asymmetric", qv.PerChannel(0), convention="course"),
    )
    low, high = histogram_data(apart).reached_by_some
    assert low < high


def test_a_mask_counts_a_part():
    r = qv.quantize(normal(8, 8), qv.Scheme("int4"))
    mask = torch.zeros(8, 8, dtype=torch.bool)
    mask[2:4] = True
    data = histogram_data(r, mask)
    assert data.cells == 16 == data.values.totals.sum() == data.errors.totals.sum()


@pytest.mark.parametrize(
    "scheme", [qv.Scheme("int4"), qv.Scheme("int4", granularity=qv.PerChannel(0))], ids=str
)
def test_no_cells_give_valid_empty_figures(scheme):
    r = qv.quantize(normal(8, 8), scheme)
    data = histogram_data(r, torch.zeros(8, 8, dtype=torch.bool))
    assert data.cells == 0
    for which in ("values", "errors"):
        figure = histogram_figure(data, which)
        assert not figure.data
        go.Figure(figure.to_dict())


@pytest.mark.parametrize("values", [[0.0], [5.0], [[1e-45, 0.0]], [[3e38, -1e38]], [[2.0, 2.0], [2.0, 2.0]]])
@pytest.mark.parametrize("granularity", [qv.PerTensor(), qv.PerChannel(0)], ids=str)
@pytest.mark.parametrize("mode", qv.MODES)
def test_degenerate_input(values, granularity, mode):
    try:
        r = qv.quantize(values, qv.Scheme("int8", mode, granularity))
    except qv.QuantVizError:
        return
    data = histogram_data(r)
    assert data.values.totals.sum() == data.cells
    assert np.isfinite(data.values.edges).all()
    for which in ("values", "errors"):
        go.Figure(histogram_figure(data, which, log_counts=True).to_dict())


@pytest.mark.parametrize("which", ["values", "errors"])
@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("language", languages())
def test_every_scenario_is_drawn(language, theme, which):
    for scenario in SCENARIOS.values():
        r = qv.quantize(scenario.source.tensor(), scenario.scheme)
        data = histogram_data(r)
        for log_counts in (False, True):
            figure = go.Figure(
                histogram_figure(data, which, language=language, theme=theme, log_counts=log_counts).to_dict()
            )
            assert sum(counted(trace.y) for trace in figure.data) == data.cells
            assert figure.layout.yaxis.type == ("log" if log_counts else None)
            assert "bdata" in figure.to_json(), "arrays travel as bytes, not as lists of numbers"
