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
from quantviz.lab.state import LabState, opening
from quantviz.quantization.explanation import CAUSES, causes
from quantviz.sources.typed import Typed
from quantviz.streaming import coding
from quantviz.tensors import blocks
from quantviz.tensors.conversion import NonFinite, as_input
from quantviz.tensors.lazy import InMemory
from tests.helpers.offered import one_of, problems
from tests.helpers.replay import replay
from tests.helpers.sample import sample_of

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
    assert as_input(x, "clip")[0].tolist() == as_input(x, "ignore")[0].tolist() == [1.0, math.inf, -2.0]
    assert qv.quantize(x, qv.Scheme("int4", nonfinite="clip")).q.tolist() == [3, 7, -7]


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


def values_of_a_block(r, place):
    """What the codes of a cell's block stand for."""
    fmt, block = r.scheme.number_format, r.layout.block_of(place, r.shape)
    codes = range(r.scheme.code_min, r.scheme.code_max + 1)
    numbers = [code for code in codes if math.isfinite(fmt.value(code))]
    alone = r.scheme.replace(granularity=qv.PerTensor(), calibration=qv.MinMax())
    params = qv.QParams(r.qparams.scale[block], r.qparams.zero_point[block], stored=True)
    return qv.dequantize(numbers, alone, params)


@settings(max_examples=60, deadline=None)
@given(x_of, st.sampled_from(SCHEMES))
def test_clip_saturates(x, scheme):
    """+Inf becomes the largest value that its block has, -Inf the smallest and NaN 0; all else is as it is
    where they are ignored.
    """
    r, other = (qv.quantize(x, scheme.replace(nonfinite=choice)) for choice in ("clip", "ignore"))
    assert same(r.qparams.scale, other.qparams.scale)
    counted = x.isfinite()
    assert torch.equal(r.q[counted], other.q[counted])
    assert same(r.x_hat[counted], other.x_hat[counted])
    assert same(r.error, other.error)
    assert qv.metrics(r)["mse"] == qv.metrics(other)["mse"] or not bool(counted.any())
    for place in torch.nonzero(torch.isinf(x)).tolist():
        ends = values_of_a_block(r, tuple(place))
        assert r.x_hat[tuple(place)] == (ends.max() if x[tuple(place)] > 0 else ends.min())
    zeros = qv.quantize(torch.where(x.isnan(), 0, x), scheme.replace(nonfinite="clip"), qparams=r.qparams)
    assert torch.equal(r.q[x.isnan()], zeros.q[x.isnan()])
    notes = [note for note in r.notes if note.key == "nonfinite_clipped"]
    assert len(notes) == (not bool(counted.all()))
    if notes:
        told = notes[0].params
        assert (told["nan"], told["inf"], told["minus_inf"]) == (
            int(x.isnan().sum()),
            int((x == math.inf).sum()),
            int((x == -math.inf).sum()),
        )
        assert told["index"] == tuple(torch.nonzero(~x.isfinite())[0].tolist())


@pytest.mark.parametrize("overflow", ["saturate", "inf", "nan"])
@pytest.mark.parametrize("format_id", ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float4_e2m1fn"])
def test_clip_saturates_whatever_a_format_does_beyond_its_end(format_id, overflow):
    """The report: [inf, -inf, 1] became [1, 1, 1]."""
    convention = qv.CONVENTIONS["course"].replace(overflow=overflow)
    scheme = qv.Scheme(format_id, convention=convention, nonfinite="clip")
    r = qv.quantize([math.inf, -math.inf, 1.0, math.nan], scheme)
    assert r.x_hat.tolist() == pytest.approx([1.0, -1.0, 1.0, 0.0])


def test_clip_saturates_under_a_negative_scale_and_before_a_cast():
    x = torch.full((32,), 0.5)
    x[:4] = torch.tensor([2.0, math.inf, -math.inf, math.nan])
    r = qv.quantize(x, qv.RECIPES["q4_0"].replace(nonfinite="clip"))
    assert r.qparams.scale.item() == -0.25
    assert r.x_hat[:4].tolist() == [2.0, 2.0, -1.75, 0.0]
    rows = torch.tensor([[1.0, math.inf, -math.inf]])
    by_row = qv.Scheme.parse("int8,symmetric,per_channel(axis=0),min_max,torch_fake_quantize")
    assert qv.quantize(rows, by_row.replace(nonfinite="clip")).q.tolist() == [[127, 127, -128]]
    assert qv.quantize(rows, by_row.replace(nonfinite="ignore")).q.tolist() == [[127, -128, -128]]


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
    assert torch.equal(clipped.q[counted], r.q[counted])
    assert clipped.q[1, 300] == other.q[1, 300]
    # Beside what is as large as the block, its end saturates as Inf does.
    assert clipped.x_hat[0, 7] >= other.x_hat[0].max() * 0.99 if scheme.granularity.single else True


# ---- what engines do ----------------------------------------------------------------------------


REPORTED = torch.tensor([[1.0, math.inf, math.nan, -math.inf, 26.0]])


@pytest.mark.parametrize(
    ("convention", "granularity", "codes"),
    [
        # pytorch/pytorch 106780, 116992, 133557.
        ("torch_fake_quantize", "per_tensor", [10, 127, -128, -128, 127]),
        ("torch_fake_quantize", "per_channel(axis=0)", [10, -128, -128, -128, 127]),
        ("torch_qat", "per_tensor", [10, 127, -128, -128, 127]),
        ("torch_qat", "per_channel(axis=0)", [10, -128, -128, -128, 127]),
        ("torch", "per_tensor", [10, 127, 127, -128, 127]),
        ("torch", "per_channel(axis=0)", [10, 127, 0, -128, 127]),
        ("onnxruntime", "per_tensor", [10, 127, -128, -128, 127]),
        ("torchao", "per_tensor", [10, 127, 0, -128, 127]),
    ],
)
def test_nan_and_inf_get_the_codes_of_the_engine(convention, granularity, codes):
    form = f"int8,symmetric,{granularity},given(scale=0.1),{convention},ignore"
    r = qv.quantize(REPORTED, qv.Scheme.parse(form))
    assert r.q[0].tolist() == codes
    for i in range(len(codes)):
        assert replay(r, (0, i)).q == codes[i]


SIGNS = torch.tensor([[math.nan, -math.nan, 1.0, 600.0, -600.0]])


def test_nan_keeps_its_sign():
    own = qv.CONVENTIONS["course"].replace(overflow="nan")
    for form, wanted in (
        ("float8_e4m3fn", [0x7F, 0xFF, 0x38, 0x7F, 0xFF]),
        ("float8_e4m3fnuz", [0x80, 0x80, 0x40, 0x80, 0x80]),
    ):
        scheme = qv.Scheme(form, calibration=qv.Given(1.0), convention=own, nonfinite="ignore")
        r = qv.quantize(SIGNS, scheme, strict=True)
        assert r.q[0].tolist() == wanted
        for i in range(len(wanted)):
            replay(r, (0, i))


def test_a_format_with_several_codes_of_nan_takes_the_engines():
    x = torch.tensor([math.nan, -math.nan])
    for mantissa, wanted in (("quiet", [0x7E, 0xFE]), ("all_ones", [0x7F, 0xFF])):
        convention = qv.CONVENTIONS["course"].replace(nan_mantissa=mantissa)
        scheme = qv.Scheme(
            "float8_e5m2", convention=convention, nonfinite="ignore", calibration=qv.Given(1.0)
        )
        assert qv.quantize(x, scheme).q.tolist() == wanted
    torch_scheme = qv.Scheme("float8_e5m2", convention="torchao_float8", nonfinite="ignore")
    made = x.to(torch.float8_e5m2).view(torch.uint8)
    assert qv.quantize(torch.cat([x, torch.ones(1)]), torch_scheme).q[:2].tolist() == made.tolist()


def test_a_quotient_without_an_answer_is_a_negative_nan():
    """torchao's float8 of a row of zeros, as x86 divides 0 by 0."""
    x = torch.tensor([[0.0, -0.0], [1.0, -0.5]])
    scheme = qv.Scheme.parse("float8_e4m3fn,symmetric,per_channel(axis=0),min_max,torchao_float8")
    r = qv.quantize(x, scheme, strict=True)
    assert r.q.tolist() == [[0xFF, 0xFF], [0x7E, 0xF6]]
    assert replay(qv.quantize(x[:1].abs(), scheme, strict=True), (0, 1)).q == 0xFF


#: A symmetric or asymmetric format, and what its convention does with NaN and beyond the end.
CODED = [
    (form, fields, granularity, choice)
    for form in (
        "int8,symmetric",
        "uint8,symmetric",
        "uint4,asymmetric",
        "nf4,symmetric",
        "float4_e2m1fn,symmetric",
        "float6_e3m2fn,symmetric",
        "float8_e4m3fn,symmetric",
        "float8_e4m3fnuz,symmetric",
        "float8_e5m2,symmetric",
        "bfloat16,symmetric",
    )
    for fields in (
        "",
        "(overflow=inf,nan_mantissa=all_ones)",
        "(overflow=nan,zero_width=as_any)",
        "(nan_code=smallest,block_cast_before_clamp=int64)",
        "(block_nan_code=largest,order=multiply_round_add)",
    )
    for granularity in ("per_tensor", "per_channel(axis=0)")
    for choice in ("clip", "ignore")
]


@pytest.mark.slow
@pytest.mark.parametrize(("form", "fields", "granularity", "choice"), sample_of(CODED, 3))
def test_compiled_codes_are_those_of_the_reference(form, fields, granularity, choice):
    x = torch.randn(3, 40, generator=torch.Generator().manual_seed(2))
    x[:, ::7] = torch.tensor([math.nan, -math.nan, math.inf, -math.inf, 0.0, 1e38])
    x[2] = torch.where(x[2].isfinite(), 0.0, x[2])
    scheme = qv.Scheme.parse(f"{form},{granularity},min_max,course{fields},{choice}")
    r = qv.quantize(x, scheme, strict=True)
    made = coding.codes(InMemory(x), scheme, r.qparams, 0, x.numel(), path="fused")
    for own, wanted in zip(made[:2], (r.q, r.x_hat), strict=True):
        assert np.array_equal(own, wanted.flatten().numpy(), equal_nan=own.dtype.kind == "f"), scheme


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
    assert LabState.read(state.written())[0].scheme == state.scheme


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
