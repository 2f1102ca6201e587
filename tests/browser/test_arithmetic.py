"""A scheme's arithmetic written as JavaScript, run in Chromium beside the reference: the same bits."""

import base64
import contextlib
import itertools
import json
import math
from typing import get_args

import numpy as np
import pytest
import torch

import quantviz as qv
from quantviz.browser import read_script
from quantviz.compiled.javascript import layout_spec, packed_together, write_metrics, write_program
from quantviz.evaluation.metric_formulas import METRICS, bits_per_element
from quantviz.quantization.cells import dequantize_with
from quantviz.quantization.result import block_values
from quantviz.quantization.value_to_code import fma
from quantviz.schemes.choices import Tail
from quantviz.schemes.formats import FORMATS
from quantviz.schemes.scheme import NONFINITE
from quantviz.tensors import blocks
from tests.helpers.browser_arithmetic import (
    HARD,
    SCRIPT,
    SEARCHED,
    Cases,
    answer,
    calibrated_schemes,
    coded,
    fitting,
    unusual,
)
from tests.helpers.drawn import normal
from tests.helpers.golden_codes import golden_schemes
from tests.helpers.sample import sample_of
from tests.helpers.walked import TENSORS, thinned

#: What a scheme's code may weigh beyond the fixed runtime, in bytes.
MOST = 20_000
KINDS = (np.int32, np.float32, np.float32, np.uint8, np.float64, *(np.float64,) * 4)
PARTS = ("q", "x_hat", "error", "clipped", "step", "lo", "hi", "scale", "zero_point")


@pytest.fixture(scope="module")
def page(blank_with):
    return blank_with(read_script("hand_component") + SCRIPT)


def decoded(text, kind):
    return np.frombuffer(base64.b64decode(text), kind)


def same(got, expected):
    """Whether two arrays have the same bits; NaN is NaN."""
    return got.size == expected.size and not unlike(got, expected).any()


def unlike(got, expected):
    """Where two arrays differ."""
    got, expected = np.ascontiguousarray(got).reshape(-1), np.ascontiguousarray(expected).reshape(-1)
    bits = f"u{got.itemsize}"
    return (got.view(bits) != expected.view(bits)) & ~((got != got) & (expected != expected))


def arrays_of(r):
    ends = (r.range.lo, r.range.hi) if r.range else (torch.full(r.layout.grid_shape, torch.nan),) * 2
    of_cells = (r.q, r.x_hat, r.error, r.clipped, r.step_of_cells().expand(r.shape))
    of_blocks = (*ends, r.qparams.scale, r.qparams.zero_point)
    return [
        values.contiguous().numpy().astype(kind)
        for values, kind in zip((*of_cells, *of_blocks), KINDS, strict=True)
    ]


def compare(page, cases):
    """Run (scheme, name of tensor, tensor) in the browser and by the reference; return what differs.

    A fourth entry is the scheme whose program is run, where it is another one by its calibration.
    """
    asked, expected = Cases(), []
    for scheme, name, x, *bases in cases:
        r = answer(x, scheme)
        asked.add(scheme, name, x, r, *bases)
        expected.append((f"{name} {scheme}", r, scheme))
    given = asked.given()
    assert max(len(text.encode()) for text in given["programs"]["texts"]) <= MOST
    # Infinity has no JSON.
    json.dumps(given["programs"], allow_nan=False)
    made = page.evaluate("given => run(given)", given)
    return [fault for got, each in zip(made, expected, strict=True) if (fault := difference(got, *each))]


def difference(got, where, r, scheme):
    refused = got.get("refused")
    if isinstance(r, qv.QuantVizError):
        if scheme.calibration.id in SEARCHED:
            return "" if refused and refused["key"] == "range_is_searched" else f"{where}: not refused"
        wanted = {"key": r.key, **{name: value for name, value in r.params.items() if name != "convention"}}
        if not refused or set(refused) != set(wanted):
            return f"{where}: refused {refused}, not {wanted}"
        # Of NaN and Inf the reference says the name.
        numbers = [
            (np.array(refused[name], float), np.array(wanted[name], float))
            for name in set(wanted) - {"key", "dtype"}
        ]
        words = (refused["key"], refused.get("dtype")) == (r.key, wanted.get("dtype"))
        fine = words and all(np.array_equal(*pair, equal_nan=True) for pair in numbers)
        return "" if fine else f"{where}: refused {refused}, not {wanted}"
    if refused:
        return f"{where}: refused {refused}"
    for part, kind, text, expected in zip(PARTS, KINDS, got["arrays"], arrays_of(r), strict=True):
        made = decoded(text, kind)
        if part in ("lo", "hi"):
            # Of 0 and -0 torch says now this one, now that, by how the values lie in memory.
            made, expected = made + 0.0, expected + 0.0
        if not same(made, expected):
            at = int(np.flatnonzero(unlike(made, expected))[0])
            return f"{where}: {part} [{at}] {made[at]!r}, not {expected.reshape(-1)[at]!r}"
    return wrong_levels(got["levels"], where, r) if got["levels"] else ""


def wrong_levels(levels, where, r):
    """What is wrong with the values of all codes, made with what is known of the last block."""
    known = {name: grid.flatten()[-1:] for name, grid in block_values(r.qparams).items()}
    q = torch.arange(r.scheme.code_min, r.scheme.code_max + 1).to(r.q.dtype)
    values = dequantize_with(q, r.scheme, known)
    order = values.argsort(stable=True)
    order = order[values[order].isfinite()]
    codes, made = (decoded(text, np.float64) for text in levels)
    if not np.array_equal(codes, q[order].numpy()):
        return f"{where}: the codes that have a value, in their order"
    return "" if same(made.astype(np.float32), values[order].numpy()) else f"{where}: the values of codes"


def compared(page, cases):
    """Compare some cases at a time; return what differs."""
    left = iter(cases)
    return [
        fault for some in iter(lambda: list(itertools.islice(left, 150)), []) for fault in compare(page, some)
    ]


def test_all_that_is_offered_has_the_bits_of_the_reference(page):
    # Searches of scales are left to the server.
    golden = (scheme for scheme in golden_schemes() if not scheme.search)
    schemes = [*sample_of(golden, 24), *sample_of(calibrated_schemes(), 16)]
    walked = itertools.product(schemes, {**TENSORS, **HARD}.items())
    fits = ((scheme, *x) for scheme, x in walked if fitting(scheme, x[1]))
    faults = compared(page, fits)
    assert not faults, (len(faults), faults[:20])


def patterns(count, seed):
    """Float32 of any bits, and beside them what lies close together or half-way between two of 16 bits."""
    made = torch.randint(-(2**31), 2**31, (count,), generator=torch.Generator().manual_seed(seed))
    return torch.cat([made, made & ~0xFFF, made & ~0x1FFF | 0x1000, made & ~0xFFFF | 0x8000]).to(torch.int32)


def test_the_functions_of_the_lines_are_torchs(page):
    x, y = (patterns(1000, seed).view(torch.float32) for seed in (1, 2))
    # Products half-way between two float32: what is added decides, though float64 loses it.
    odd = (1 + torch.arange(1.0, 1400, 2) * 2.0**-12, 1 + torch.arange(1401.0, 2, -2) * 2.0**-12)
    lost = 2.0 ** -(60 + torch.arange(700.0) % 50) * torch.tensor([1.0, -1.0]).repeat(350)
    x, y, z = (
        torch.cat(each) for each in zip((x, y, -x * y), (*odd, lost), (-odd[0], odd[1], lost), strict=True)
    )
    e = torch.arange(-1100.0, 1100, dtype=torch.float64)
    given = {"x": coded(x), "y": coded(y), "z": coded(z), "e": e.tolist()}
    got = page.evaluate(
        """given => {
            const {rint, copysign, fusedSum, toHalf, toBrain, twoTo, exponentOf, floatOfCode} = api.ROUNDING;
            const [x, y, z] = [given.x, given.y, given.z].map(floats);
            const sixteen = Float32Array.from({length: 65536}, (_, i) => i);
            return [
                x.map((v, i) => fusedSum(v, y[i], z[i])), x.map(toHalf), x.map(toBrain), x.map(rint),
                x.map((v, i) => copysign(v, y[i])), x.map(exponentOf), Float64Array.from(given.e, twoTo),
                sixteen.map(c => floatOfCode(c, 8, 7, 127, 1, 1, 1)),
                sixteen.map(c => floatOfCode(c, 5, 10, 15, 1, 1, 1)),
            ].map(coded);
        }""",
        given,
    )
    # JavaScript knows no sign of NaN.
    signs = torch.where(y.isnan(), 1.0, y)
    finite = torch.where(x.isfinite(), x, 0.0)
    expected = {
        "fma": fma(x, y, z),
        "half": x.half().float(),
        "brain": x.bfloat16().float(),
        "rint": x.round(),
        "copysign": x.copysign(signs),
        "exponent": torch.where(x.isfinite(), torch.frexp(finite).exponent, 0).float(),
        "two_to": torch.exp2(e),
        **{
            name: torch.tensor([fmt.value(code) for code in fmt.codes])
            for name, fmt in FORMATS.items()
            if name in ("bfloat16", "float16")
        },
    }
    names = ("fma", "half", "brain", "rint", "copysign", "exponent", "two_to", "bfloat16", "float16")
    for name, text in zip(names, got, strict=True):
        wanted = expected[name].numpy()
        wrong = np.flatnonzero(unlike(decoded(text, wanted.dtype), wanted))
        assert not wrong.size, (name, len(wrong), decoded(text, wanted.dtype)[wrong[:5]], wanted[wrong[:5]])


def test_mean_magnitudes_are_of_the_exact_sum(page):
    """Terms of every size, and such as leave a sum half-way between two numbers."""
    ties = torch.tensor([2.0**53, 1.0, 2.0**-30, 2.0**54, 2.0, 2.0**-60, 1.0, 1.0]).repeat(4, 8)
    tensors = {"every_size": HARD["every_size"], "ties": ties, "fewer": ties[:, :3], "two": ties[:, :2] * 3}
    schemes = [
        qv.Scheme("int4", "symmetric", each, qv.AbsMean()) for each in (qv.PerTensor(), qv.PerChannel(0))
    ]
    faults = compared(page, [(scheme, *x) for scheme in schemes for x in tensors.items()])
    assert not faults, faults


def layouts():
    """Schemes of every granularity on tensors of one to four axes, blocks that do not fill up included."""
    for tail, shape in itertools.product(
        get_args(Tail), ((7,), (64,), (5, 9), (8, 12), (3, 4, 10), (2, 3, 5, 6))
    ):
        convention = qv.CONVENTIONS["course"].replace(tail=tail)
        axes = range(-len(shape), len(shape))
        for granularity in (
            qv.PerTensor(),
            *map(qv.PerChannel, axes),
            *(qv.PerGroup(size, axis) for size, axis in itertools.product((1, 2, 4, 7, 50), axes)),
            *(qv.PerBlock(rows, columns) for rows, columns in ((1, 1), (2, 3), (4, 4), (3, 100))),
            *(qv.Flat(size, strided) for size, strided in itertools.product((1, 4, 6, 32), (False, True))),
        ):
            scheme = qv.Scheme("int4", "asymmetric", granularity, convention=convention)
            if not scheme.problems(shape):
                yield shape, scheme


def test_blocks_are_those_of_the_layout(page):
    own = {"asymmetric": (qv.MinMax(), qv.Percentile(80.0)), "symmetric": (qv.AbsMean(), qv.Percentile(99.0))}
    cases, numbered, expected = [], [], []
    for i, (shape, scheme) in enumerate(sample_of(layouts(), 80)):
        layout = scheme.layout(shape)
        numbered.append(layout_spec(layout, shape))
        expected.append(blocks.block_ids(layout, shape).flatten().tolist())
        x = normal(*shape, seed=len(shape)) * (1 + torch.arange(shape[-1])) + 0.5
        mode = qv.MODES[i % 2]
        for calibration in own[mode]:
            cases.append((scheme.replace(mode=mode, calibration=calibration), str(shape), x))
    numbers = page.evaluate("specs => specs.map(spec => [...api.makeLayout(spec).numbers])", numbered)
    assert numbers == expected
    faults = compared(page, cases)
    assert not faults, (len(faults), faults[:20])


def test_nan_and_inf_are_left_out_clipped_or_refused_as_by_the_reference(page):
    formats = (("int8", "asymmetric"), ("uint4", "asymmetric"), ("int4", "symmetric"), ("nf4", "symmetric"))
    formats += (("float8_e4m3fn", "symmetric"), ("float8_e5m2", "symmetric"))
    calibrations = (qv.MinMax(), qv.Percentile(90.0), qv.AbsMean(), qv.Given(0.5))
    cases = []
    for (name, mode), rule, granularity, calibration in itertools.product(
        formats, NONFINITE, (qv.PerTensor(), qv.PerChannel(0), qv.PerGroup(8)), calibrations
    ):
        with contextlib.suppress(qv.QuantVizError):
            scheme = qv.Scheme(name, mode, granularity, calibration, nonfinite=rule)
            cases += [(scheme, *x) for x in unusual().items()]
    faults = compared(page, cases)
    assert not faults, (len(faults), faults[:20])


def test_a_range_or_a_scale_by_hand_takes_the_place_of_the_calibration(page):
    """The program of one calibration answers what the reference says of another; refusals are the same."""
    hands = (qv.ManualRange(-1.0, 1.5), qv.ManualRange(-1e39, 1e39), qv.ManualRange(2.0, 2.0 + 2**-40))
    hands += (qv.ManualRange(1e8, 1e8 + 8), qv.Given(0.125, 3), qv.Given(0.125), qv.Given(1e-45))
    bases = (qv.MinMax(), qv.Percentile(99.0), qv.MSE(), qv.Given(0.5))
    cases = []
    for convention in qv.CONVENTIONS.values():
        for i, scheme in enumerate(sample_of(thinned(convention), 2)):
            for calibration in hands:
                with contextlib.suppress(qv.QuantVizError):
                    base, own = (scheme.replace(calibration=each) for each in (bases[i % 4], calibration))
                    cases.append((own, "normal", TENSORS["normal"], base))
    assert len(cases) > 100
    faults = compared(page, cases)
    assert not faults, (len(faults), faults[:20])


def test_what_a_search_found_has_the_bits_of_the_reference(page):
    kinds = (qv.CALIBRATIONS[name] for name in sorted(SEARCHED - {"hqq", "searched"}))
    schemes = [qv.Scheme("int4", granularity=qv.PerChannel(0), calibration=kind()) for kind in kinds]
    form = "uint4,asymmetric,{},hqq,hqq"
    schemes += [qv.Scheme.parse(form.format(each)) for each in ("per_channel", "flat(size=8,strided=true)")]
    fields = "zero_point_format=bfloat16,scale.format=bfloat16,value_dtype=bfloat16"
    schemes.append(qv.Scheme.parse(f"uint3,asymmetric,per_group(size=16),hqq,hqq({fields})"))
    faults = compare(page, [(scheme, "normal", TENSORS["normal"]) for scheme in schemes])
    assert not faults, faults


@pytest.mark.parametrize(
    ("calibration", "key"),
    [
        ({"id": "manual_range", "lo": 1, "hi": 1}, "manual_range_order"),
        ({"id": "given", "scale": 0}, "scale_not_positive"),
        ({"id": "given", "scale": math.nan}, "scale_not_positive"),
        ({"id": "given", "scale": 1, "zero_point": 0.5}, "zero_point_not_integer"),
        ({"id": "given", "scale": 1, "zero_point": 2**24 + 2}, "zero_point_not_integer"),
    ],
)
def test_what_a_scheme_could_not_hold_is_refused(page, calibration, key):
    scheme = qv.Scheme("int8", "asymmetric")
    given = [write_program(scheme).packed(), layout_spec(scheme.layout((2,)), (2,)), calibration]
    refused = page.evaluate(
        "([program, layout, calibration]) => api.quantizeTensor(api.makeArithmetic(program), "
        "Float32Array.of(1, 2), api.makeLayout(layout), {calibration}).refused",
        given,
    )
    assert refused["key"] == key


def test_metrics_are_those_of_the_reference(page):
    """Within what sums of another order differ by."""
    wrong = []
    formats = ("int4", "uint8", "float8_e4m3fn", "nf4", "ternary")
    tensors = {**{name: TENSORS[name] for name in ("normal", "ties", "zeros", "constant")}, **unusual()}
    for format_id, (name, x) in itertools.product(formats, tensors.items()):
        scheme = qv.Scheme(format_id, granularity=qv.PerGroup(8), nonfinite="ignore")
        r, shape = qv.quantize(x, scheme), tuple(x.shape)
        given = {
            "program": write_program(scheme).packed(),
            "layout": layout_spec(r.layout, shape),
            "x": coded(x),
            "metrics": write_metrics().packed(),
            "bits": bits_per_element(scheme, shape),
        }
        got = page.evaluate(
            "g => api.metricsOf(api.makeParts(g.metrics), api.momentsOf(api.quantizeTensor("
            "api.makeArithmetic(g.program), floats(g.x), api.makeLayout(g.layout))), g.bits)",
            given,
        )
        expected = qv.metrics(r)
        assert list(got) == list(expected) == list(METRICS)
        wrong += [
            (scheme, name, key, got[key], value)
            for key, value in expected.items()
            if not math.isclose(got[key], value, rel_tol=1e-9, abs_tol=1e-12)
            and not (math.isnan(got[key]) and math.isnan(value))
        ]
    assert not wrong, wrong


def test_schemes_that_differ_in_numbers_only_share_their_text():
    named = packed_together(write_program(qv.Scheme(f"int{bits}")) for bits in range(3, 9))
    assert len(named["texts"]) == 1
    sizes = packed_together(write_program(qv.Scheme("int4", granularity=qv.PerGroup(n))) for n in (4, 8, 64))
    assert len(sizes["texts"]) == 1
