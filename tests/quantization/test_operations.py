"""The shared steps one by one: exact where they are said to be, and each with its words."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import torch

import quantviz as qv
from quantviz.evaluation.metric_formulas import stored_bits
from quantviz.layers.integer_engines import ACTIVATIONS
from quantviz.layers.integer_operations import layer_operations
from quantviz.layers.narrow_sums import narrow_operations
from quantviz.quantization.code_sums import SUMS_B_FIRST
from quantviz.quantization.code_to_value import error_operations, value_operations
from quantviz.quantization.integer_operators import OPERATORS
from quantviz.quantization.operations import Operation, number_code
from quantviz.quantization.qparams import range_operations
from quantviz.quantization.stored_scale import level_operations, round_to_format, store_operations
from quantviz.quantization.value_to_code import chances, code_operations, fma
from quantviz.schemes.conventions import CHOICES, FIELDS
from quantviz.schemes.formats import FORMATS
from quantviz.text import catalogue, languages
from tests.helpers.offered import calibration_of, offered_schemes, problems, variant


def random_floats(count, seed):
    """float32 of any exponent that leaves room for a product."""
    generator = torch.Generator().manual_seed(seed)
    exponents = torch.randint(-60, 60, (count,), generator=generator)
    return torch.ldexp(torch.randn(count, generator=generator), exponents)


def float32_of(exact):
    """The float32 nearest to a fraction, half to even, by integers alone."""
    if exact == 0:
        return 0.0
    sign, exact = (-1.0, -exact) if exact < 0 else (1.0, exact)
    exponent = max(
        math.floor(math.log2(exact))
        if exact.denominator == 1 and exact.numerator < 2**1000
        else exact.numerator.bit_length() - exact.denominator.bit_length(),
        -126,
    )
    while exact >= Fraction(2) ** (exponent + 1):
        exponent += 1
    while exact < Fraction(2) ** exponent and exponent > -126:
        exponent -= 1
    step = Fraction(2) ** (exponent - 23)
    return sign * float(round(exact / step) * step)


# ---- fma ----------------------------------------------------------------------------------------


def assert_rounded_once(x, y, z):
    got = fma(x, y, z)
    for a, b, c, value in zip(*(map(Fraction, each.tolist()) for each in (x, y, z, got)), strict=True):
        assert float(value) == float32_of(a * b + c), (float(a), float(b), float(c))


def test_fma_is_rounded_once_on_random_values():
    x, y = random_floats(3000, 0), random_floats(3000, 1)
    # Addends of the product's own size, where most digits cancel, and of any other.
    near = (x * y) * (1 + torch.randn(3000, generator=torch.Generator().manual_seed(2)) * 2.0**-20)
    assert_rounded_once(x, y, -near)
    assert_rounded_once(x, y, random_floats(3000, 3))


def test_fma_is_rounded_once_on_hard_cases():
    """What a float64 sum that is rounded again gets wrong: it lies on a tie of float32 only once it has been
    rounded.
    """
    one, tiny = 1 + 2.0**-23, 2.0**-80
    cases = [
        (one, 1 + 2.0**-23, tiny),
        (one, 1 + 2.0**-23, -tiny),
        (1 + 2.0**-12, 1 + 2.0**-12, tiny),
        (1 + 2.0**-12, 1 + 2.0**-12, -tiny),
    ]
    cases += [
        (1 + 2.0**-12, 1 - 2.0**-12, -1.0),
        (3.0, 1 / 3, -1.0),
        (0.1, 10.0, -1.0),
        (0.0, 5.0, -0.25),
        (2.0**-100, 2.0**-49, 0.0),
        (2.0**-75, 2.0**-75, 2.0**-149),
    ]
    cases += [(1.0, 0.5, sign * (2.0**23 + n)) for sign, n in itertools.product((1, -1), range(4))]
    assert_rounded_once(*(torch.tensor(each, dtype=torch.float32) for each in zip(*cases, strict=True)))
    x = torch.tensor([1 + 2.0**-12])
    twice = ((x * x).to(torch.float64) + tiny).to(torch.float32)
    assert fma(x, x, torch.tensor([tiny])).item() != twice.item()


# ---- storing ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_scales_are_stored_as_torch_casts_them(name):
    x = torch.cat(
        [
            random_floats(4000, 4).abs(),
            torch.tensor([0.0, 2.0**-149, 2.0**-24, 2.0**-25, 3e38, 65504.0, 65519.0, 65520.0, 448.0, 463.0]),
        ]
    )
    own, theirs = round_to_format(x, FORMATS[name]), x.to(getattr(torch, name)).to(torch.float32)
    if FORMATS[name].float_bits.special == "fn":
        # A scale beyond the format is its end, whatever a cast makes of it.
        inside = x <= 448
        assert (own[~inside] == 448).all()
        own, theirs = own[inside], theirs[inside]
    assert torch.equal(own, theirs)


def test_scales_are_stored_as_powers_of_two():
    exponents = torch.arange(-126, 128)
    powers = torch.ldexp(torch.ones(254), exponents)
    assert torch.equal(round_to_format(powers, FORMATS["float8_e8m0fnu"]), powers)
    assert round_to_format(torch.tensor([0.0, 2.0**-140, 3.3e38]), FORMATS["float8_e8m0fnu"]).tolist() == [
        2.0**-127,
        2.0**-127,
        2.0**127,
    ]
    theirs = (powers * 1.3).to(torch.float8_e8m0fnu).to(torch.float32)
    assert torch.equal(round_to_format(powers * 1.3, FORMATS["float8_e8m0fnu"]), theirs)


def test_chance_by_the_published_numbers():
    """SplitMix64 from seed 0 begins with 0xE220A8397B1DCDAF (Steele, Lea and Flood; also Java's
    SplittableRandom).
    """
    first, second = 0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4
    assert chances(0, torch.tensor([0, 1])).tolist() == [(first >> 40) / 2**24, (second >> 40) / 2**24]


def test_numbers_as_python():
    for value in (0.0, -7.0, 0.1, 2.0**-126, 448.0, 3.3895313892515355e38, 65535.0):
        assert eval(number_code(value)) == value
        assert len(number_code(value)) < 25


# ---- no dead field, no line without words -------------------------------------------------------


def operations_of(scheme, given=False):
    ranged = () if given else range_operations(scheme)
    return (
        *ranged,
        *store_operations(scheme, given=given),
        *(level_operations(scheme) if scheme.search else ()),
        *code_operations(scheme),
        *value_operations(scheme),
        *error_operations(scheme),
    )


#: Values that go only together.
TOGETHER = qv.CONVENTIONS["mlx_nvfp4"].replace(
    order="divide_level_multiply_round", **{"scale.global_rule": "absmax_and_inverse"}
)


def thinned():
    """Of every convention each kind of format and mode once, by each granularity."""
    for convention in (*qv.CONVENTIONS.values(), TOGETHER):
        seen = set()
        for scheme in offered_schemes(convention):
            fmt = scheme.number_format
            kind = (fmt.kind, fmt.signed, scheme.mode, scheme.granularity.single)
            if kind not in seen:
                seen.add(kind)
                yield scheme


SCHEMES = list(thinned())


def shown(scheme):
    """All that is read of a convention: its lines, the codes and blocks in use, what is stored, and what is
    random.
    """
    lines = [(operation.key, operation.line) for operation in operations_of(scheme)]
    properties = (scheme.code_min, scheme.symmetric_zero_point, stored_bits(scheme), scheme.arithmetic.tail)
    properties = (*properties, scheme.search, str(scheme.weighted.arithmetic), scheme.weighs_columns)
    kept = "block_scale_dtype" if not scheme.granularity.single else "scale_dtype"
    properties = (*properties, scheme.on_input("float16").arithmetic.result_dtype)
    return lines, properties, scheme.arithmetic.get(kept), scheme.arithmetic.scale_math


VALUES = [(name, value) for name, allowed in CHOICES.items() for value in allowed]
#: Fields that lines do not show: numbers tell their values apart.
SILENT = ("zero_point_ties", "zero_point_math")
#: A field that only codes show: `tests/quantization/test_nonfinite.py` tells its values apart.
OF_CODES = ("nan_mantissa",)


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, value in VALUES if name not in SILENT + OF_CODES]
)
def test_every_value_of_every_field_is_read(name, value):
    """Putting it in place of another one changes what some scheme does."""
    for scheme in SCHEMES:
        others = set(CHOICES[name]) - {value} if scheme.arithmetic.get(name) == value else {value}
        for other in others:
            changed = variant(scheme.arithmetic, name, other)
            if changed is None:
                continue
            fields = (scheme.format, scheme.mode, scheme.granularity, calibration_of(changed), changed)
            if not problems(*fields) and shown(qv.Scheme(*fields)) != shown(scheme):
                return
    raise AssertionError("a value that nothing reads")


@pytest.mark.parametrize("scale_math", ["float32", "float64"])
def test_the_zero_points_own_rounding_is_read(scale_math):
    """Rows of two-decimal numbers, a range of 15 steps of 0.02 among them, have zero points on ties and
    beside them.
    """
    low = torch.arange(1, 4000).to(torch.float32) / -100
    x = torch.stack([low, low + torch.arange(1, 4000) % 97 / 100 + 0.15], dim=1)
    found = {}
    for name in SILENT:
        for value in CHOICES[name]:
            convention = qv.CONVENTIONS["course"].replace(
                scale_math=scale_math, zero_point_clamp=False, **{name: value}
            )
            found[name, value] = qv.choose_qparams(
                x, qv.Scheme("uint8", "asymmetric", qv.PerChannel(0), convention=convention)
            ).zero_point
    x = torch.tensor([[-0.5, 254.5], [-2.5, 252.5]])
    for value, wanted in (("even", [0, 2]), ("away", [1, 3])):
        convention = qv.CONVENTIONS["course"].replace(scale_math=scale_math, zero_point_ties=value)
        params = qv.choose_qparams(
            x, qv.Scheme("uint8", "asymmetric", qv.PerChannel(0), convention=convention)
        )
        assert params.zero_point.flatten().tolist() == wanted
    other = "float64" if scale_math == "float32" else "float32"
    assert torch.equal(found["zero_point_math", "scale_math"], found["zero_point_math", scale_math])
    assert not torch.equal(found["zero_point_math", "scale_math"], found["zero_point_math", other])


@pytest.mark.slow
def test_every_number_of_a_convention_is_read():
    changes = {
        "scale.floor": 0.5,
        "scale.value_limit": 0.5,
        "scale.widened_up_to": 0.5,
        "scale.tensor_floor": 0.5,
        "scale.code_max": 256.0,
        "scale.without_inverse": 0.5,
        "scale.format_floor": 0.5,
        "scale.code_floor": 0.5,
        "scale.inverse_max": 3.0,
        "code_bits": 1.5,
        "scale_bits": 9,
        "zero_bits": 9,
        "narrow_symmetric_from": 2,
        "seed": 3,
        "lattice": 5,
    }
    assert set(changes) | set(CHOICES) == set(FIELDS)
    for name, value in changes.items():
        changed = [(scheme, variant(scheme.arithmetic, name, value)) for scheme in SCHEMES]
        read = [
            scheme
            for scheme, other in changed
            if other and shown(scheme.replace(convention=other)) != shown(scheme)
        ]
        if name == "seed":
            scheme = qv.Scheme("int4", convention=qv.CONVENTIONS["course"].replace(ties="stochastic"))
            read += (
                [scheme]
                if shown(scheme) != shown(scheme.replace(convention=scheme.arithmetic.replace(seed=3)))
                else []
            )
        assert read, name


@pytest.mark.slow
def operations_of_integers():
    """The operations of integer layers, and of operators on codes, of every engine."""
    for engine, activation in itertools.product(qv.INTEGER_ENGINES.values(), ACTIVATIONS):
        for by_output, has_bias in itertools.product((False, True), repeat=2):
            yield from layer_operations(engine, by_output=by_output, has_bias=has_bias, activation=activation)
    for arithmetics in (*OPERATORS.values(), SUMS_B_FIRST):
        for operations in arithmetics.values():
            yield from operations
    yield from narrow_operations(32, 14, 128)


def test_every_line_has_its_words_and_no_words_are_left_over():
    used = {
        operation.key
        for scheme in SCHEMES
        for given in (False, True)
        for operation in operations_of(scheme, given)
    }
    for scheme, (name, value) in itertools.product(SCHEMES[:: max(len(SCHEMES) // 40, 1)], VALUES):
        changed = variant(scheme.arithmetic, name, value)
        fields = (scheme.format, scheme.mode, scheme.granularity, scheme.calibration, changed)
        if changed and not problems(*fields):
            used |= {
                operation.key
                for given in (False, True)
                for operation in operations_of(qv.Scheme(*fields), given)
            }
    levels = ("scale_code", "global_scale", "zero_point_code", "global_zero_point", "global_absmax")
    used |= {f"found_{name}" for name in levels}
    used |= {
        "range_lo",
        "range_hi",
        "found_lo",
        "found_hi",
        "range_extreme",
        "range_tensor_absmax",
        "found_tensor_absmax",
        "own_code",
    }
    used |= {operation.key for operation in error_operations(qv.Scheme(nonfinite="ignore"))}
    beyond = qv.CONVENTIONS["course"].replace(overflow="inf")
    clipping = qv.Scheme("float8_e5m2", convention=beyond, nonfinite="clip")
    of_half = qv.Scheme("int16", convention=qv.CONVENTIONS["course"].replace(apply_dtype="float16"))
    values = qv.CONVENTIONS["qserve"].replace(zero_domain="value")
    of_values = qv.Scheme("uint4", "asymmetric", qv.PerGroup(32), qv.Searched(), values)
    for scheme in (clipping, of_half, of_values):
        used |= {operation.key for operation in code_operations(scheme)}
    used |= {operation.key for operation in operations_of_integers()}
    for language in languages():
        words = {key.removeprefix("steps.") for key in catalogue(language) if key.startswith("steps.")}
        assert used - words == set()
        assert words - used == set()


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_a_line_reads_only_what_was_made_before(scheme):
    made = {"lo", "hi", "extreme", "tensor_absmax", "short", "x", "index"}
    for operation in operations_of(scheme):
        names = {
            word
            for word in operation.reads
            if word
            in {
                "scale",
                "zero_point",
                "inverse",
                "absmax",
                "width",
                "exponent",
                "y",
                "q",
                "x_hat",
                "code_scale",
            }
        }
        assert names <= made, operation
        made.add(operation.name)


def test_a_symmetric_range_can_be_counted_from_its_lower_end():
    """256 levels reach one step further below 0 than above, as OpenVINO has them; 255 leave a code out."""
    form = "uint8,symmetric,per_tensor,{},openvino_fake_quantize{}"
    x = torch.tensor([[-127.0, -1.0, 0.0, 1.0, 127.0]])
    full, narrow = (
        qv.quantize(x, qv.Scheme.parse(form.format("min_max", own))) for own in ("", "(narrow_range=true)")
    )
    assert full.q.tolist() == [[1, 127, 128, 129, 255]]
    assert narrow.q.tolist() == [[0, 126, 127, 128, 254]]
    assert [r.qparams.zero_point.item() for r in (full, narrow)] == [-128.0, -127.0]
    # A scale set by hand lays as many steps below 0 as above, and one more.
    given = qv.quantize(x, qv.Scheme.parse(form.format("given(scale=1.0,zero_point=0)", "")))
    assert (given.q.tolist(), given.x_hat.tolist()) == (full.q.tolist(), x.tolist())


def test_a_range_for_half_of_the_codes_is_stretched_to_all():
    """NNCF's fix of overflow makes a range for 128 codes and lays 256 over twice as much: 0 is between two.
    With 255 codes it is one.
    """
    form = "uint8,symmetric,per_tensor,min_max,openvino_fake_quantize({})"
    x = torch.tensor([[-63.5, -1.0, 0.0, 1.0, 63.5]])
    even, odd = (
        qv.quantize(x, form.format(own))
        for own in ("reduce_range=stretched", "narrow_range=true,reduce_range=stretched")
    )
    assert (odd.qparams.scale.item(), odd.qparams.zero_point.item()) == (1.0, -127.0)
    assert odd.q.tolist() == [[64, 126, 127, 128, 190]]
    assert (even.qparams.zero_point / even.qparams.scale).item() == pytest.approx(-64 * 255 / 127)
    assert (even.x_hat[0, 2].abs() / even.qparams.scale).item() == pytest.approx(0.5, abs=0.01)
    with pytest.raises(qv.QuantVizError, match="reduce_range"):
        qv.quantize(x, form.format("reduce_range=stretched").replace("symmetric", "asymmetric"))
    with pytest.raises(qv.QuantVizError, match="reduce_range"):
        qv.Scheme("int8", convention=qv.CONVENTIONS["torch"].replace(reduce_range="stretched"))


@pytest.mark.parametrize("form", ["uint4,asymmetric", "int8,symmetric"])
def test_the_ends_of_a_range_can_be_rounded_first(form):
    """Under every rule for the scale; beyond the largest value of the format they are that."""
    x = torch.tensor([-1.0001, 0.3, 1e5])
    for fmt in ("float16", "bfloat16"):
        r = qv.quantize(x, f"{form},per_tensor,min_max,course(scale.ends_format={fmt})")
        dtype = getattr(torch, fmt)
        low, high = x.clamp(-65504, 65504).to(dtype)[[0, 2]] if fmt == "float16" else x.to(dtype)[[0, 2]]
        width = high.double() - low.double() if "asymmetric" in form else high.double()
        assert r.qparams.scale.item() == pytest.approx(width.item() / (15 if "uint4" in form else 127))


def test_a_number_of_numpy_stands_in_a_line_as_a_number_of_python():
    x = torch.tensor([[0.5, -1.25, 0.0, 1e-8]])
    # Values that no scheme before had: lines of equal schemes are kept.
    floor, reach = 1.25e-4 + 2**-40, 1.5 + 2**-30
    as_numpy, as_python = (
        qv.quantize(
            x,
            qv.Scheme(
                "int8",
                calibration=qv.ManualRange(number(-reach), number(reach)),
                convention=qv.CONVENTIONS["torch"].replace(**{"scale.floor": number(floor)}),
            ),
        )
        for number in (np.float64, float)
    )
    assert torch.equal(as_numpy.q, as_python.q)
    assert str(as_numpy.scheme) == str(as_python.scheme)


@pytest.mark.parametrize(
    "expression",
    ["x.numpy()", "x[0]", "[y for y in x]", "(lambda: x)()", "f'{x}'", "open('a')", "x if x else y"],
)
def test_a_line_is_arithmetic_alone(expression):
    """A line is run as it is shown: nothing but names, numbers, operators and the words of the arithmetic."""
    with pytest.raises((ValueError, NameError)):
        Operation("scale", f"scale = {expression}").run({"x": torch.ones(1), "y": torch.ones(1)})


@pytest.mark.parametrize("line", ["y = __import__", "y = _x", "y = x.abs()", "y = x[0]", "y = (lambda: 1)()"])
def test_a_line_is_arithmetic_and_nothing_else(line):
    with pytest.raises(ValueError, match="no line of arithmetic"):
        Operation("y", line).run({"x": torch.ones(1)})
