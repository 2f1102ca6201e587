"""NaN and Inf in the input: refused, clipped to the finite range, or left out."""

import io
import itertools
import math

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings

import quantviz as qv
from quantviz.analysis.engine_comparison import compare, difference
from quantviz.analysis.recipe_ranking import recipe_rows
from quantviz.evaluation.tables import as_csv, as_npz, scales_table
from quantviz.export.files import python_lines
from quantviz.figures.histograms import histogram_data
from quantviz.lab.state import opening, read_link, write_link
from quantviz.quantization.explanation import CAUSES, causes
from quantviz.sources.typed import Typed
from quantviz.tensors import blocks
from quantviz.tensors.conversion import NonFinite, as_input
from quantviz.tensors.lazy import InMemory, Replaced
from tests.helpers.offered import one_of, problems
from tests.helpers.replay import replay

SHAPE = (4, 6)
GRANULARITIES = (qv.PerTensor(), qv.PerChannel(0), qv.PerGroup(3), qv.PerBlock(2, 3))
RANGES = (qv.MinMax(), qv.Percentile(90.0), qv.AbsMean(), qv.ManualRange(-1.0, 2.0), qv.Given(0.25))
FORMATS = ("int8", "uint4", "int2", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn", "nf4")
SCHEMES = [
    qv.Scheme(*fields)
    for fields in itertools.product(FORMATS, qv.MODES, GRANULARITIES, RANGES)
    if not problems(*fields)
]
finite = st.floats(-100, 100, width=32)
values = st.lists(
    st.one_of(finite, st.sampled_from([math.nan, math.inf, -math.inf])), min_size=24, max_size=24
)
x_of = values.map(lambda numbers: torch.tensor(numbers).reshape(SHAPE))


def same(one, other):
    """Equal, NaN included."""
    return torch.equal(one.nan_to_num(1234.5), other.nan_to_num(1234.5)) and torch.equal(
        one.isnan(), other.isnan()
    )


def bad(*places, value=math.nan):
    x = torch.arange(1.0, 25.0).reshape(SHAPE) / 8 - 1
    for place in places:
        x[place] = value
    return x


# ---- refuse -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "count"), [(math.nan, "nan"), (math.inf, "inf"), (-math.inf, "minus_inf")])
def test_refuse_says_how_many_and_where(value, count):
    with pytest.raises(qv.QuantVizError) as caught:
        qv.quantize(bad((1, 2), (3, 5), value=value), qv.Scheme())
    assert (caught.value.key, caught.value.params["count"], caught.value.params["index"]) == (
        "input_nonfinite",
        2,
        (1, 2),
    )
    assert getattr(NonFinite.of(bad((1, 2), (3, 5), value=value)), count) == 2


def test_a_value_beyond_float32_is_told_as_it_was_and_then_is_inf():
    x = torch.tensor([1.0, 1e300, -2.0], dtype=torch.float64)
    with pytest.raises(qv.QuantVizError) as caught:
        qv.quantize(x, qv.Scheme())
    assert (caught.value.key, caught.value.params["value"]) == ("input_beyond_float32", 1e300)
    assert as_input(x, "clip")[0].tolist() == [1.0, 1.0, -2.0]
    assert as_input(x, "ignore")[0].tolist() == [1.0, math.inf, -2.0]


@pytest.mark.parametrize("choice", qv.NONFINITE)
def test_the_choice_is_in_the_text_form(choice):
    scheme = qv.Scheme("int4", nonfinite=choice)
    assert qv.Scheme.parse(str(scheme)) == scheme
    assert scheme.replace(format="int8").nonfinite == choice
    assert (
        scheme.fitted((4, 48)).nonfinite
        == scheme.with_format("nf4").nonfinite
        == scheme.adapted("torch", SHAPE).nonfinite
        == choice
    )


@pytest.mark.parametrize("choice", qv.NONFINITE)
def test_a_finite_tensor_is_the_same_under_each_choice(choice):
    for scheme in SCHEMES[::7]:
        one, other = qv.quantize(bad(), scheme), qv.quantize(bad(), scheme.replace(nonfinite=choice))
        assert other.counted is None
        assert torch.equal(one.q, other.q)
        assert torch.equal(one.error, other.error)
        assert one.notes == other.notes


# ---- clip ---------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(x_of, st.sampled_from(SCHEMES))
def test_clip_is_quantizing_the_replaced_tensor(x, scheme):
    numbers = x[x.isfinite()]
    clip = scheme.replace(nonfinite="clip")
    if not numbers.numel():
        with pytest.raises(qv.QuantVizError) as caught:
            qv.quantize(x, clip)
        assert (caught.value.key, caught.value.params["count"]) == ("input_nothing_finite", 24)
        return
    replaced = torch.where(x.isnan(), 0, x).clamp(numbers.min(), numbers.max())
    replaced = torch.where(x.isnan(), 0, replaced)
    one, other = qv.quantize(x, clip), qv.quantize(replaced, scheme)
    assert torch.equal(one.x, replaced)
    assert torch.equal(one.q, other.q)
    assert torch.equal(one.x_hat, other.x_hat)
    assert str(qv.metrics(one)) == str(qv.metrics(other))
    notes = [note for note in one.notes if note.key == "nonfinite_clipped"]
    assert len(notes) == (numbers.numel() < x.numel())
    if notes:
        told = notes[0].params
        assert (told["nan"], told["inf"], told["minus_inf"]) == (
            int(x.isnan().sum()),
            int((x == math.inf).sum()),
            int((x == -math.inf).sum()),
        )
        assert told["index"] == tuple(torch.nonzero(~x.isfinite())[0].tolist())


@settings(max_examples=30, deadline=None)
@given(x_of, st.integers(0, 24), st.integers(0, 24))
def test_what_is_read_a_part_at_a_time_is_replaced_alike(x, start, stop):
    found = NonFinite.of(x)
    if found is None or found.count == x.numel():
        return
    clipped = as_input(x, "clip")[0]
    ends = x[x.isfinite()]
    stored = Replaced(InMemory(x), ends.min().item(), ends.max().item())
    assert stored.run(start, stop).tolist() == clipped.flatten()[start:stop].tolist()
    assert torch.equal(stored.read((slice(1, 3), 2)), clipped[1:3, 2])


# ---- ignore -------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(x_of, st.sampled_from(SCHEMES))
def test_ignore_makes_ranges_and_metrics_of_the_finite_cells(x, scheme):
    ignore = scheme.replace(nonfinite="ignore")
    r, counted = qv.quantize(x, ignore), x.isfinite()
    assert same(r.x, x)
    assert bool(r.error.isnan()[~counted].all())
    assert not bool(r.error.isnan()[counted].any())
    assert not bool(r.clipped[~counted].any())
    assert set(causes(r)[~counted].tolist()) <= {CAUSES.index("left_out")}
    assert CAUSES.index("left_out") not in causes(r)[counted].tolist()
    # Each block on its own, of its finite values alone, has the same scale and codes; one without any is a
    # block of zeros.
    ids, kept = blocks.block_ids(r.layout, r.shape), scheme.arithmetic
    kept = kept if scheme.granularity.single else kept.replace(scale_dtype=kept.block_scale_dtype)
    alone = scheme.replace(granularity=qv.PerTensor(), convention=kept)
    for block in range(r.layout.block_count):
        here = (ids == block) & counted
        own = qv.quantize(x[here] if bool(here.any()) else torch.zeros(1), alone)
        assert same(own.qparams.scale.flatten(), r.qparams.scale.flatten()[block : block + 1])
        if bool(here.any()):
            assert torch.equal(own.q, r.q[here])
            assert torch.equal(own.x_hat, r.x_hat[here])


@settings(max_examples=60, deadline=None)
@given(x_of, st.sampled_from(SCHEMES))
def test_metrics_are_those_of_the_finite_cells(x, scheme):
    r, counted = qv.quantize(x, scheme.replace(nonfinite="ignore")), x.isfinite()
    measured = qv.metrics(r)
    if not bool(counted.any()):
        assert all(
            math.isnan(measured[name])
            for name in ("mse", "rmse", "max_abs_error", "sqnr_db", "cosine", "clipped_share")
        )
        return
    error, own = r.error[counted].to(torch.float64), x[counted].to(torch.float64)
    assert measured["mse"] == pytest.approx(float(error.square().mean()))
    assert measured["max_abs_error"] == pytest.approx(float(error.abs().max()))
    assert measured["clipped_share"] == pytest.approx(float(r.clipped[counted].double().mean()))
    assert measured["levels_used"] == len(set(r.q[counted].tolist()))
    assert measured["nonzero_share"] == pytest.approx(float((own != 0).double().mean()))
    noise, signal = float(error.square().sum()), float(own.square().sum())
    assert measured["sqnr_db"] == pytest.approx(math.inf if not noise else 10 * math.log10(signal / noise))
    assert measured["mean_error"] == pytest.approx(float(error.mean()))
    # No error is no step, where a step is too small for float32 too.
    in_steps = (error / r.step_of_cells().expand(SHAPE)[counted]).where(error != 0, 0.0)
    assert measured["rmse_steps"] == pytest.approx(float(in_steps.square().mean()) ** 0.5)
    assert measured["rounding_mse"] + measured["clipping_mse"] == measured["mse"]
    assert histogram_data(r).cells == int(counted.sum())
    table = scales_table(r)
    assert sum(table["clipped"]) == int(r.clipped.sum())
    if r.layout.block_count == 1:
        assert table["mse"] == [pytest.approx(measured["mse"])]


@settings(max_examples=25, deadline=None)
@given(x_of, st.sampled_from(SCHEMES), st.sampled_from(["clip", "ignore"]))
def test_every_cell_can_be_explained(x, scheme, choice):
    if choice == "clip" and not bool(x.isfinite().any()):
        return
    r = qv.quantize(x, scheme.replace(nonfinite=choice))
    ids, out = blocks.block_ids(r.layout, r.shape), ~r.x.isfinite()
    for place in itertools.product(*map(range, SHAPE)):
        why = qv.explain(r, place)
        assert (why.cause == "left_out") == bool(out[place]) == math.isnan(why.error)
        assert why.left_out == int(out[ids == ids[place]].sum())
    assert as_csv(r).count("left_out") == (0 if r.counted is None else int((~r.counted).sum()))


@pytest.mark.parametrize("scheme", SCHEMES[::9], ids=str)
def test_the_derivation_of_a_block_with_such_cells_can_be_run(scheme):
    x = bad((0, 1), (2, 5), value=math.inf)
    x[1] = math.nan
    r = qv.quantize(x, scheme.replace(nonfinite="ignore"))
    for place in ((0, 0), (0, 1), (1, 3), (2, 4), (3, 3)):
        why = replay(r, place)
        assert (why.cause == "left_out") == (place in ((0, 1), (1, 3)))


def test_inf_saturates_and_is_no_clipped_cell():
    r = qv.quantize([1.0, math.inf, -math.inf, math.nan, -0.57], qv.Scheme("int4", nonfinite="ignore"))
    assert r.q.tolist() == [7, 7, -8, 0, -4]
    assert r.clipped.tolist() == [False] * 5
    assert [CAUSES[cause] for cause in causes(r).tolist()] == [
        "exact",
        "left_out",
        "left_out",
        "left_out",
        "rounded",
    ]
    assert qv.metrics(r)["clipped_share"] == 0
    assert [note.key for note in r.notes] == ["nonfinite_left_out"]


def test_negative_cells_that_are_left_out_are_not_counted_as_clipped():
    r = qv.quantize([1.0, -math.inf, -2.0], qv.Scheme("uint4", nonfinite="ignore"))
    assert next(note for note in r.notes if note.key == "negatives_clip").params["count"] == 1


def test_a_block_that_does_not_fill_up():
    x = torch.tensor([1.0, -4.0, math.nan, 2.0, math.inf])
    for tail in ("short", "pad"):
        convention = qv.CONVENTIONS["course"].replace(tail=tail)
        for calibration in (qv.MinMax(), qv.Percentile(75.0), qv.AbsMean()):
            r = qv.quantize(
                x,
                qv.Scheme(
                    "int8",
                    granularity=qv.Flat(4),
                    calibration=calibration,
                    convention=convention,
                    nonfinite="ignore",
                ),
            )
            assert r.range.hi.flatten()[1] == 0
            assert r.range.extreme.flatten().tolist() == [-4.0, 0.0]


@pytest.mark.parametrize("convention", qv.CONVENTIONS.values(), ids=lambda convention: convention.id)
def test_every_engines_arithmetic(convention):
    # Values on both sides of 0 in every block: a 0 in place of what is left out changes no range.
    x = torch.randn((2, 512), generator=torch.Generator().manual_seed(5))
    zeros = x.clone()
    x[0, 7], x[1, 100], x[1, 300] = math.inf, -math.inf, math.nan
    counted = x.isfinite()
    zeros[~counted] = 0
    scheme = one_of(convention)
    r, other = qv.quantize(x, scheme.replace(nonfinite="ignore")), qv.quantize(zeros, scheme)
    assert torch.equal(r.qparams.scale, other.qparams.scale)
    assert torch.equal(r.q[counted], other.q[counted])
    assert torch.equal(r.x_hat[counted], other.x_hat[counted])
    assert qv.metrics(r)["mse"] == pytest.approx(
        float((zeros - other.x_hat)[counted].double().square().mean())
    )
    assert {qv.explain(r, place).cause for place in ((0, 7), (1, 100), (1, 300))} == {"left_out"}
    clipped = qv.quantize(x, scheme.replace(nonfinite="clip"))
    assert clipped.x[0, 7] == zeros.max()
    assert clipped.x[1, 100] == zeros.min()
    assert clipped.x[1, 300] == 0


def test_engines_agree_or_differ_by_what_counts():
    x = bad((0, 0), value=math.inf)
    found = compare(x, qv.Scheme("int8", nonfinite="ignore"))
    assert len(found.results) > 5
    assert not bool(found.lit[0, 0])
    first, *others = found.results.values()
    assert all(not bool(difference(first, other).either[0, 0]) for other in others)


@pytest.mark.parametrize("choice", ["clip", "ignore"])
def test_the_script_makes_the_state_again(choice, capsys):
    typed = Typed.of([[1.0, math.nan, -0.25], [math.inf, -math.inf, 0.4]])
    state = opening().with_source(typed)
    state = state.replace(scheme=state.scheme.replace(nonfinite=choice), cell=(1, 0))
    exec(python_lines(state), {})
    printed = capsys.readouterr().out
    r = qv.quantize(typed.tensor(), state.scheme)
    assert f"MSE {qv.metrics(r)['mse']:.4g}" in printed
    assert printed.strip().endswith(qv.explain(r, (1, 0)).cause)
    assert read_link(write_link(state))[0].scheme == state.scheme


def test_the_arrays_keep_them():
    r = qv.quantize(bad((0, 1), value=math.inf), qv.Scheme("int4", nonfinite="ignore"))
    with np.load(io.BytesIO(as_npz(r)), allow_pickle=False) as saved:
        assert saved["x"][0, 1] == np.inf
        assert np.isnan(saved["error"][0, 1])
        assert str(saved["scheme"]).endswith(",ignore")
    line = as_csv(r).splitlines()[2]
    assert line.split(",")[2:4] == ["inf", "7"]
    assert line.split(",")[5] == "nan"
    assert line.endswith(",left_out")


@pytest.mark.parametrize("choice", ["clip", "ignore"])
def test_recipes_keep_the_choice(choice):
    x = np.random.default_rng(0).normal(size=(4, 256)).astype(np.float32)
    x[0, 0], x[1, 1] = np.nan, np.inf
    current = qv.RECIPES["int4_per_row"].replace(nonfinite=choice)
    rows = {row.id: row for row in recipe_rows(x, current=current)}
    assert {row.scheme.nonfinite for row in rows.values()} == {choice}
    assert rows["int4_per_row"].is_current
    assert rows["int4_per_row"].mse == qv.metrics(qv.quantize(x, current))["mse"]
