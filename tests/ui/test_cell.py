"""The sentence of a cell and what is told between its steps: every convention, every kind of format, both
languages.
"""

import itertools
import os
import re

import pytest
import torch

import quantviz as qv
from quantviz.figures.arrangement import PanelsStyle
from quantviz.figures.histograms import histogram_data, histogram_figure
from quantviz.figures.panels import panels_figure
from quantviz.figures.panels_data import result_panels
from quantviz.figures.ruler_data import ruler_of_result, ruler_sentence
from quantviz.text import languages, text
from quantviz.ui.components import cell
from quantviz.ui.shell import words
from tests.helpers.offered import offered_schemes
from tests.helpers.sample import ALL


@pytest.fixture(params=languages())
def language(request, monkeypatch):
    monkeypatch.setattr(words, "language", lambda: request.param)
    return request.param


@pytest.fixture
def english(monkeypatch):
    monkeypatch.setattr(words, "language", lambda: "en")


def why_of(x, form, index=0, **changes):
    scheme = qv.Scheme.parse(form)
    return qv.explain(qv.quantize(x, scheme.replace(**changes)), index)


HALF, ONE = "given(scale=0.5,zero_point=0)", "given(scale=1.0,zero_point=0)"


@pytest.mark.parametrize(
    ("x", "form", "said"),
    [
        ([1.3], f"int4,symmetric,per_tensor,{HALF},course", "1.3 ÷ 0.5 = 2.6 → 3 → 1.5, error +0.2: rounded"),
        (
            [1.25],
            f"int4,symmetric,per_tensor,{HALF},course",
            "1.25 ÷ 0.5 = 2.5 → 2 (half-way: to the even code) → 1, error −0.25: rounded",
        ),
        (
            [1.25],
            f"int4,symmetric,per_tensor,{HALF},course(ties=away)",
            "1.25 ÷ 0.5 = 2.5 → 3 (half-way: away from zero) → 1.5, error +0.25: rounded",
        ),
        (
            [9.0],
            f"int4,symmetric,per_tensor,{HALF},course",
            "9 ÷ 0.5 = 18 → 18 → clipped to 7 → 3.5, error −5.5: clipped",
        ),
        (
            [1.6],
            f"float4_e2m1fn,symmetric,per_tensor,{HALF},course",
            "1.6 ÷ 0.5 = 3.2 → nearest FP4 E2M1 value 3 → bits 0 10 1 → 1.5, error −0.1: rounded",
        ),
        (
            [1.25],
            f"float4_e2m1fn,symmetric,per_tensor,{HALF},course",
            "1.25 ÷ 0.5 = 2.5 → FP4 E2M1 value 2 (half-way: to the even code) → bits 0 10 0 → 1, "
            "error −0.25: rounded",
        ),
        (
            [-9.0],
            f"float4_e2m1fn,symmetric,per_tensor,{HALF},course",
            "−9 ÷ 0.5 = −18 → clipped to −6 → bits 1 11 1 → −3, error +6: clipped",
        ),
        (
            [-0.6, 2.0, *[0.0] * 30],
            "nf4,symmetric,flat(size=32),min_max,bitsandbytes",
            "−0.6 × 0.5 = −0.3 → nearest NF4 value −0.284441 → bits 0100 → −0.5689, error +0.03112: rounded",
        ),
        # A short block is divided.
        (
            [-0.6, 2.0],
            "nf4,symmetric,flat(size=32),min_max,bitsandbytes",
            "−0.6 ÷ 2 = −0.3 → nearest NF4 value −0.284441",
        ),
        # The extreme 8 makes the scale -1.
        (
            [3.2, 8.0, *[0.0] * 30],
            "int4,symmetric,per_group(size=32),min_max,gguf_signed",
            "3.2 × (−1) = −3.2 → −3 → 3, error −0.2: rounded",
        ),
        # lo = -3, scale = 1.
        (
            [1.3, -3.0, 12.0, *[0.0] * 29],
            "uint4,asymmetric,per_group(size=32),min_max,gguf_minimum",
            "1.3 − (−3) = 4.3; 4.3 × 1 = 4.3 → 4 → 1, error −0.3: rounded",
        ),
        (
            [1.3, -3.5, 11.5, *[0.0] * 29],
            "uint4,asymmetric,per_group(size=32),min_max,hqq",
            "1.3 × 1 = 1.3; 1.3 + 3.5 = 4.8 → 5 → 1.5, error +0.2: rounded",
        ),
        # Rounded first, the zero point added after.
        (
            [1.3, -5.0, 250.0],
            "uint8,asymmetric,per_tensor,min_max,onnxruntime",
            "1.3 ÷ 1 = 1.3 → 1; 1 + 5 = 6 → 1, error −0.3: rounded",
        ),
        (
            [1.3, -5.0, 250.0],
            "uint8,asymmetric,per_tensor,min_max,torch",
            "1.3 × 1 + 5 = 6.3 → 6 → 1, error −0.3: rounded",
        ),
        # bitsandbytes looks codes up on a lattice without 0, and its map has no code below: 0 does not come
        # back as 0.
        (
            [0.0, 1.0],
            "bnb_dynamic8,symmetric,flat(size=64),min_max,bitsandbytes_dynamic8",
            "0 × 1 = 0 → lattice point 0.00001526 →",
        ),
    ],
)
def test_the_sentence(english, x, form, said):
    assert cell.sentence(why_of(x, form), words.say).startswith(said)


@pytest.mark.parametrize(
    ("x", "form", "told"),
    [
        (
            [1.6],
            f"float4_e2m1fn,symmetric,per_tensor,{HALF},course",
            "3 lies 0.20000005 below 3.2, 4 lies 0.79999995 above: 3 is nearer.",
        ),
        (
            [1.25],
            f"float4_e2m1fn,symmetric,per_tensor,{HALF},course",
            "2 lies 0.5 below 2.5, 3 lies 0.5 above: a tie (half-way: to the even code): 2.",
        ),
        (
            [9.0],
            f"float4_e2m1fn,symmetric,per_tensor,{HALF},course",
            "18 lies 12 beyond 6, the end of the grid: no value is nearer.",
        ),
        (
            [1.5],
            f"float4_e2m1fn,symmetric,per_tensor,{HALF},course",
            "3 is on the grid: there is nothing to round.",
        ),
        # The zero point 5 comes after rounding: the grid ends at 255 - 5.
        (
            [300.0],
            "uint8,asymmetric,per_tensor,given(scale=1.0,zero_point=5),onnxruntime",
            "300 lies 50 beyond 250, the end of the grid: no value is nearer.",
        ),
        (
            [2.75],
            f"int4,symmetric,per_tensor,{ONE},course(ties=truncate)",
            "2 lies 0.75 below 2.75, 3 lies 0.25 above: "
            "the rule (the fraction is cut off, toward zero) gives 2.",
        ),
    ],
)
def test_the_neighbours(english, x, form, told):
    assert told in "".join(cell._rows(why_of(x, form)))


@pytest.mark.parametrize(
    ("x", "form", "told"),
    [
        ([-3.0], f"int4,symmetric,per_tensor,{ONE},course", "1101, two&#x27;s complement = −3"),
        (
            [-3.0],
            f"float4_e2m1fn,symmetric,per_tensor,{ONE},course",
            "1 | 10 | 1 (sign, exponent, mantissa) = −2¹ × (1 + 1/2) = −3",
        ),
        (
            [0.5],
            f"float4_e2m1fn,symmetric,per_tensor,{ONE},course",
            "0 | 00 | 1 (sign, exponent, mantissa) = 2⁰ × (0 + 1/2) = 0.5",
        ),
        (
            [0.25],
            f"float8_e8m0fnu,symmetric,per_tensor,{ONE},course",
            "01111101 (exponent) = 2⁻² × (1) = 0.25",
        ),
        (
            [1.0],
            f"nf4,symmetric,per_tensor,{ONE},course",
            "1111: entry 15 of the table of 16 values, counted from 0 = 1",
        ),
    ],
)
def test_the_bits(english, x, form, told):
    assert told in "".join(cell._rows(why_of(x, form)))


def test_chance_is_told(english):
    whys = [
        why_of([1.25] * 8, f"int4,symmetric,per_tensor,{ONE},course(ties=stochastic,seed=3)", i)
        for i in range(8)
    ]
    assert {why.q for why in whys} == {1, 2}
    for why in whys:
        assert ("up to 2" if why.q == 2 else "down to 1") in "".join(cell._rows(why))
        assert (why.rounding.chance < 0.25) == (why.q == 2)


def test_the_scale_in_its_own_format(english):
    x = torch.randn(2, 32, generator=torch.Generator().manual_seed(0))
    two = why_of(x, "float4_e2m1fn,symmetric,per_group(size=16),min_max,torchao_nvfp4", (1, 20))
    stored = two.stored_scale
    assert stored.second_level
    assert stored.format == "float8_e4m3fn"
    assert qv.FORMATS[stored.format].value(int("".join(stored.bits), 2)) == stored.value
    assert abs(stored.value - stored.before) <= stored.before / 16
    assert two.tensor_absmax == x.abs().max().item()
    assert f"the largest magnitude of the whole tensor is {words.number(two.tensor_absmax, 8)}" in "".join(
        cell._rows(two)
    )
    one = why_of(x, "int4,symmetric,per_group(size=32),min_max,gguf_signed", (1, 20))
    assert one.stored_scale.value == one.scale
    assert one.extreme == x[1][x[1].abs().argmax()].item()
    assert why_of(x, "int4,symmetric,per_tensor,min_max,course", (1, 20)).stored_scale is None


def walked():
    """Two formats of each convention, all of `course`'s kinds."""
    for convention in qv.CONVENTIONS.values():
        few = convention.offer.formats[:2] or ("int4", "uint8", "float8_e5m2", "fp4", "binary", "bfloat16")
        for _, schemes in itertools.groupby(
            offered_schemes(convention, few), key=lambda scheme: (scheme.format, scheme.mode)
        ):
            each = list(schemes)
            yield from {str(scheme): scheme for scheme in (each[0], each[-1])}.values()


def tensors():
    x = torch.randn(4, 256, generator=torch.Generator().manual_seed(1))
    x[1, :32] = 2.5
    x[2] = x[2].abs() + 3
    zeros = x.clone()
    zeros[0] = 0
    return zeros, x


def test_every_convention_is_told_without_a_hitch(language):
    """Where not all combinations are taken, each language has every second scheme."""
    first = languages().index(language)
    schemes = list(walked())
    if os.environ.get(ALL) != "1":
        schemes = schemes[first :: len(languages())]
    count = 0
    for scheme in schemes:
        zeros, x = tensors()
        try:
            r = qv.quantize(zeros, scheme)
        except qv.QuantVizError:  # what the engine makes NaN of
            r = qv.quantize(x, scheme)
        for index in ((0, 0), (1, 3), (2, 40)):
            why = qv.explain(r, index)
            picture = ruler_of_result(r, why)
            told = [
                cell.sentence(why, words.say),
                *cell._rows(why),
                ruler_sentence(why, picture, r.qparams, language),
            ]
            assert not [part for part in told if re.search(r"\b(nan|inf)\b", part)], scheme
            rounding = why.rounding
            if rounding.nearer != "none":
                assert rounding.below <= rounding.y <= rounding.above, (scheme, index)
                assert rounding.output in (rounding.below, rounding.above), (scheme, index)
            assert not len(picture.levels) or why.x_hat in picture.levels
            assert picture.domain[0] < min(why.x, why.x_hat) <= max(why.x, why.x_hat) < picture.domain[1]
            count += 1
        data = result_panels(r, error_view="steps")
        histogram_figure(histogram_data(r), language=language)
        panels_figure(data, PanelsStyle(language=language))
        assert torch.isfinite(torch.as_tensor(data.panel("q")[0])).all()
    assert count > 3 * len(qv.CONVENTIONS)


@pytest.mark.parametrize("bits", [2, 3, 4, 5, 6, 7, 8, 16])
def test_the_sentence_is_never_at_odds_with_itself(bits):
    """What is divided, as read, rounds to the code that is named."""
    from quantviz.export.cell_words import sentence

    x = torch.randn(8, 16, generator=torch.Generator().manual_seed(bits))
    for mode in qv.MODES:
        r = qv.quantize(x, qv.Scheme(f"int{bits}", mode))
        for row in range(8):
            why = qv.explain(r, (row, 2 * row))
            said = sentence(why, text).replace("−", "-")
            shown, code = re.search(r"= (\S+) → (-?\d+)", said).groups()
            assert round(float(shown)) == int(code), said
