"""The number line shows the grid that the cell was rounded to."""

import base64
import itertools
import math
import re
import xml.etree.ElementTree as ET

import pytest
import torch

import quantviz as qv
from quantviz.figures.number_line import NEIGHBOURS, number_line_data, number_line_sentence
from quantviz.figures.number_line_svg import HEIGHT, WIDTHS, number_line_html, number_line_svg
from quantviz.figures.numbers import on_axis
from quantviz.figures.theme import THEMES
from quantviz.lab.scenarios import SCENARIOS
from quantviz.text import languages

SVG = "{http://www.w3.org/2000/svg}"


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def line(x, scheme, cell):
    r = qv.quantize(x, scheme)
    return number_line_data(qv.explain(r, cell), r.qparams)


def scenario_line(name):
    scenario = SCENARIOS[name]
    return line(scenario.source.tensor(), scenario.scheme, scenario.cell)


def schemes(formats=("int2", "uint3", "int4", "int8", "uint8", "int16")):
    return [
        qv.Scheme(name, mode, granularity)
        for name in formats
        for mode in qv.MODES
        for granularity in (qv.PerTensor(), qv.PerChannel(1))
    ]


# ---- data ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", schemes(), ids=str)
def test_x_lands_on_a_tick_and_lies_within_half_a_step_of_it(scheme):
    x = normal(6, 6)
    r = qv.quantize(x, scheme)
    for row in range(6):
        data = number_line_data(qv.explain(r, (row, 2)), r.qparams)
        assert data.landing in data.ticks
        assert data.landing.value == r.x_hat[row, 2].item()
        assert data.error == r.error[row, 2].item()
        if data.cause != "clipped":
            assert abs(data.x - data.x_hat) <= data.step * (0.5 + 1e-3)
            assert min(abs(tick.value - data.x) for tick in data.ticks) == pytest.approx(
                abs(data.error), abs=data.step * 1e-3
            )


@pytest.mark.parametrize("scheme", schemes(), ids=str)
def test_ticks_are_the_dequantized_codes(scheme):
    data = line(normal(6, 6), scheme, (3, 4))
    codes = [tick.code for tick in data.ticks]
    assert codes == list(range(codes[0], codes[-1] + 1))
    assert data.first.code == scheme.code_min <= codes[0]
    assert data.last.code == scheme.code_max >= codes[-1]
    assert len(codes) == min(data.levels, 2 * NEIGHBOURS + 1)
    values = [tick.value for tick in data.ticks]
    assert values == sorted(values)
    gaps = [high - low for low, high in itertools.pairwise(values)]
    assert gaps == pytest.approx([data.step] * len(gaps), rel=1e-2)
    for boundary, low, high in zip(data.boundaries, values, values[1:], strict=False):
        assert boundary == pytest.approx((low + high) / 2)


def test_at_few_bits_every_code_is_a_tick():
    for name, levels in (("int2", 4), ("uint3", 8), ("int4", 16)):
        data = line(normal(6, 6), qv.Scheme(name, "asymmetric"), (0, 0))
        assert [tick.code for tick in data.ticks] == list(range(data.first.code, data.last.code + 1))
        assert len(data.ticks) == levels == data.levels


def test_a_boundary_is_where_rounding_changes_its_mind():
    scheme = qv.Scheme("int4", calibration=qv.Given(0.25))
    data = line([[0.3]], scheme, (0, 0))
    for boundary, low, high in zip(data.boundaries, data.ticks, data.ticks[1:], strict=False):
        codes = qv.quantize([[math.nextafter(boundary, -9) - 1e-6, boundary + 1e-6]], scheme).q[0].tolist()
        assert codes == [low.code, high.code]


def test_a_clipped_cell_lies_outside_the_last_tick():
    data = scenario_line("one_cell")
    assert data.cause == "clipped"
    assert data.landing == data.last == data.ticks[-1]
    assert data.x > data.last.value
    assert data.clipping_range is None
    assert data.extent == (data.first.value, data.x)


def test_the_extent_holds_everything():
    for name in SCENARIOS:
        data = scenario_line(name)
        low, high = data.extent
        for value in (data.x, data.first.value, data.last.value, *(data.clipping_range or ())):
            assert low <= value <= high


def test_the_last_codes_may_lie_beyond_float32():
    data = line([[1e38, 0.0]], qv.Scheme("int8", calibration=qv.Given(1e38)), (0, 0))
    assert all(math.isfinite(tick.value) for tick in data.ticks)
    assert data.last.value == pytest.approx(127e38)
    assert "nan" not in number_line_svg(data)


def test_a_tie_is_known():
    assert line([[0.75]], qv.Scheme("int4", calibration=qv.Given(0.5)), (0, 0)).tie
    assert not line([[0.7]], qv.Scheme("int4", calibration=qv.Given(0.5)), (0, 0)).tie


def other_kinds():
    for form in (
        "float4_e2m1fn,symmetric,per_group(size=16),min_max,torchao_nvfp4",
        "float8_e4m3fn,symmetric,per_tensor,min_max,course",
        "float8_e5m2,symmetric,per_tensor,percentile(p=80.0),course",
        "bfloat16,symmetric,per_tensor,min_max,course",
        "nf4,symmetric,flat(size=64),min_max,bitsandbytes",
        "fp4,symmetric,per_channel(axis=0),min_max,course",
        "bnb_dynamic8,symmetric,flat(size=64),min_max,bitsandbytes_dynamic8",
        "binary,symmetric,per_tensor,min_max,course",
        "int4,symmetric,per_group(size=32),min_max,gguf_signed",
        "uint8,symmetric,per_group(size=32),min_max,onnxruntime_nbits",
        "uint4,asymmetric,per_group(size=32),min_max,gguf_minimum",
        "uint4,asymmetric,per_group(size=32),min_max,torchao_tinygemm",
        "uint4,asymmetric,per_group(size=32),min_max,hqq",
        "int8,symmetric,per_channel(axis=0),min_max,bitsandbytes_int8",
    ):
        yield qv.Scheme.parse(form)


@pytest.mark.parametrize("scheme", list(other_kinds()), ids=str)
def test_the_line_of_every_kind_of_grid(scheme):
    x = normal(4, 32)
    x[2, 5] = 0
    r = qv.quantize(x, scheme)
    whole = {fmt_value for fmt_value, _ in scheme.number_format.finite}
    for row, col in ((0, 1), (1, 2), (2, 5), (3, 31)):
        data = number_line_data(qv.explain(r, (row, col)), r.qparams)
        values = [tick.value for tick in data.ticks]
        assert values == sorted(set(values))
        assert data.landing in data.ticks
        assert (data.landing.code, data.landing.value) == (r.q[row, col].item(), r.x_hat[row, col].item())
        assert {tick.unscaled for tick in data.ticks} <= whole
        assert data.first.value <= values[0] <= values[-1] <= data.last.value
        # Where codes are far apart and where they are near: x lies between the thresholds around where it
        # lands.
        below, above = (
            [edge for edge in data.boundaries if side * edge > side * data.x_hat] for side in (-1, 1)
        )
        if (
            data.cause != "clipped" and not scheme.arithmetic.lattice
        ):  # what is brought to a lattice first may pass a threshold
            slack = 1e-3 * data.step
            assert max(below, default=-math.inf) - slack <= data.x <= min(above, default=math.inf) + slack
        for width in (340, 900):
            assert on_axis(data.x_hat, data.step) in words(parsed(number_line_svg(data, width=width)))


def test_under_a_negative_scale_codes_descend():
    r = qv.quantize(
        [[8.0, *[0.0] * 31]], qv.Scheme.parse("int4,symmetric,per_group(size=32),min_max,gguf_signed")
    )
    assert r.qparams.scale.item() == -1
    data = number_line_data(qv.explain(r, (0, 1)), r.qparams)
    assert [tick.code for tick in data.ticks] == list(range(7, -9, -1))
    assert (data.first.code, data.last.code, data.first.value, data.last.value) == (7, -8, -7.0, 8.0)
    assert "16 codes, 7 to −8" in words(parsed(number_line_svg(data, width=900)))


def test_a_scale_of_0_has_one_value():
    r = qv.quantize(
        torch.zeros(1, 32), qv.Scheme.parse("int4,symmetric,per_group(size=32),min_max,gguf_signed")
    )
    data = number_line_data(qv.explain(r, (0, 0)), r.qparams)
    assert ([tick.value for tick in data.ticks], data.boundaries) == ([0.0], ())
    assert data.step > 0


# ---- picture ------------------------------------------------------------------------------------


def parsed(svg):
    return ET.fromstring(svg)


def words(root):
    return ["".join(element.itertext()) for element in root.iter(f"{SVG}text")]


@pytest.mark.parametrize("language", languages())
@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("name", SCENARIOS)
def test_every_scenario_is_drawn(name, theme, language):
    data = scenario_line(name)
    root = parsed(number_line_svg(data, language=language, theme=theme))
    assert root.get("role") == "img"
    assert root.get("aria-label") == root.find(f"{SVG}title").text == number_line_sentence(data, language)
    assert not [
        element
        for element in root.iter()
        if element.get("id") or element.tag in (f"{SVG}script", f"{SVG}foreignObject")
    ]
    groups = [element.get("class") for element in root.findall(f"{SVG}g")]
    assert groups == [f"qv-line-{width}" for width in WIDTHS]


@pytest.mark.parametrize("width", [320, 340, 560, 700, 1100, 1900])
@pytest.mark.parametrize("name", SCENARIOS)
def test_what_is_drawn_stays_inside(name, width):
    data = scenario_line(name)
    root = parsed(number_line_svg(data, width=width))
    assert (root.get("width"), root.get("height")) == (str(width), str(HEIGHT))
    for element in root.iter():
        for attribute in ("x", "x1", "x2"):
            if "%" in element.get(attribute, ""):
                assert 0 <= float(element.get(attribute).rstrip("%")) <= 100
    shown = words(root)
    assert on_axis(data.x_hat, data.step) in shown, "x̂ stands under its tick"
    assert any(words.startswith("x = ") for words in shown)


def test_many_codes_are_told_by_number():
    data = line(normal(6, 6), qv.Scheme("int16"), (1, 1))
    assert len(data.ticks) == 2 * NEIGHBOURS + 1
    assert "65536 codes, −32768 to 32767" in words(parsed(number_line_svg(data, width=900)))


def test_an_exact_cell_has_no_error_to_show():
    data = line([[0.0, 3.5]], qv.Scheme("int4"), (0, 0))
    assert data.error == 0
    root = parsed(number_line_svg(data, width=600))
    assert not [words for words in words(root) if "error" in words]
    assert "no error" in number_line_sentence(data)


def test_a_far_clipped_cell_is_drawn_behind_a_break():
    near = line([[5.0, 0.1]], qv.Scheme("int4", calibration=qv.Given(0.5)), (0, 0))
    far = line([[5000.0, 0.1]], qv.Scheme("int4", calibration=qv.Given(0.5)), (0, 0))
    zigzag = "M-7 6L-1 -6M1 6L7 -6"
    assert zigzag not in number_line_svg(near, width=700)
    assert zigzag in number_line_svg(far, width=700)


def test_the_image_carries_the_picture_and_its_sentence():
    data = scenario_line("one_loud_column")
    shown = number_line_html(data, theme="dark")
    source = re.search(r'src="data:image/svg\+xml;base64,([^"]+)"', shown)[1]
    assert base64.b64decode(source).decode() == number_line_svg(data, theme="dark")
    assert f'alt="{number_line_sentence(data)}"' in shown


@pytest.mark.parametrize("shape", [(1,), (7,), (1, 1), (2, 3, 4), (2, 2, 2, 2)])
def test_any_number_of_axes(shape):
    x = normal(*shape)
    parsed(number_line_svg(line(x, qv.Scheme("int3", "asymmetric"), (0,) * len(shape))))


@pytest.mark.parametrize("scale", [1e-44, 1e-30, 1.0, 1e30, 1.5e38])
def test_any_size_of_values(scale):
    x = torch.tensor([[scale, -scale / 3, 0.0]])
    for cell in ((0, 0), (0, 1), (0, 2)):
        svg = number_line_svg(line(x, qv.Scheme("int8", calibration=qv.MinMax()), cell))
        parsed(svg)
        assert "nan" not in svg
        assert "inf" not in svg
