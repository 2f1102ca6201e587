"""Operators on codes give what the runtimes' kernels give."""

import functools
import math

import numpy as np
import onnxruntime as ort
import pytest
import torch
from onnx import TensorProto, helper

import quantviz as qv

INPUTS = ("a", "as", "az", "b", "bs", "bz", "cs", "cz")


@functools.cache
def session(kind):
    element = getattr(TensorProto, kind.upper())
    kinds = [TensorProto.FLOAT if name.endswith("s") else element for name in INPUTS]
    graph = helper.make_graph(
        [helper.make_node("QLinearAdd", INPUTS, ["c"], domain="com.microsoft")],
        "graph",
        [helper.make_tensor_value_info(name, each, None) for name, each in zip(INPUTS, kinds, strict=True)],
        [helper.make_tensor_value_info("c", element, None)],
    )
    model = helper.make_model(
        graph,
        ir_version=10,
        opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)],
    )
    return ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


def qlinear_add(a, a_params, b, b_params, params, kind):
    """ONNX Runtime's operator."""
    values = [a, a_params.scale, a_params.zero_point, b, b_params.scale, b_params.zero_point]
    values += [params.scale, params.zero_point]
    feeds = {
        name: np.asarray(value, np.float32 if name.endswith("s") else kind)
        for name, value in zip(INPUTS, values, strict=True)
    }
    return session(kind).run(None, feeds)[0]


#: Scales and zero points of both terms and of the sum; the first are of microsoft/onnxruntime issue 25512.
SUMS = (
    ((0.02534690499305725, -106), (0.035809919238090515, -120), (0.0365859717130661, -105)),
    ((0.1, 3), (0.025, -7), (0.05, 0)),
    ((1.0, 0), (0.5, 0), (2.0, 0)),
    ((0.0137, 127), (0.0613, -128), (0.0021, 11)),
    ((1e-30, 0), (1.0, 0), (1e-30, 0)),
)


@pytest.mark.parametrize("kind", ["int8", "uint8"])
@pytest.mark.parametrize("params", SUMS)
def test_a_sum_of_codes_is_onnx_runtimes(kind, params):
    shift = 0 if kind == "int8" else 128
    of_a, of_b, of_sum = (qv.QParams(scale, zero + shift) for scale, zero in params)
    codes = np.arange(-128, 128) + shift
    a, b = np.repeat(codes, 256), np.tile(codes, 256)
    for terms in ((a, b), (a, b[:1]), (a[-1:], b), (b[10:11], a[20:21])):
        theirs = qlinear_add(terms[0], of_a, terms[1], of_b, of_sum, kind)
        ours = qv.add_codes(terms[0], of_a, terms[1], of_b, of_sum, number_format=kind)
        assert np.array_equal(ours.numpy(), theirs)


def test_sums_of_codes_are_onnx_runtimes_where_they_nearly_tie():
    """Ratios of few digits: what is rounded by itself decides."""
    draw = np.random.default_rng(5)
    codes = np.arange(-128, 128)
    for _ in range(25):
        scale = np.float32(draw.uniform(0.01, 0.1))
        ratios = draw.integers(1, 64, 2) / draw.choice([2, 4, 8, 10, 20, 40, 100], 2)
        scales = (*(float(np.float32(each * scale)) for each in ratios), float(scale))
        of_a, of_b, of_sum = (qv.QParams(each, int(draw.integers(-128, 128))) for each in scales)
        terms = [(np.repeat(codes, 256), np.tile(codes, 256))]
        for single in codes[:: 256 // 12, None]:
            terms += [(single, codes), (codes, single)]
        for a, b in terms:
            theirs = qlinear_add(a, of_a, b, of_b, of_sum, "int8")
            assert np.array_equal(qv.add_codes(a, of_a, b, of_b, of_sum).numpy(), theirs)


@pytest.mark.parametrize(
    "shapes",
    [
        ((6, 40), (1, 40)),
        ((6, 40), (40,)),
        ((6, 40), (6, 1)),
        ((6, 1), (1, 40)),
        ((1, 40), (6, 1)),
        ((2, 6, 1), (6, 1)),
        ((2, 1, 7), (2, 5, 7)),
        ((1, 1), (1,)),
    ],
    ids=str,
)
def test_axes_of_size_1_are_broadcast_as_in_onnx_runtime(shapes):
    draw = np.random.default_rng(11)
    for params in (*SUMS, ((0.075, 3), (0.025, -7), (0.05, 0))):
        of_a, of_b, of_sum = (qv.QParams(*each) for each in params)
        a, b = (draw.integers(-128, 128, shape) for shape in shapes)
        theirs = qlinear_add(a, of_a, b, of_b, of_sum, "int8")
        ours = qv.add_codes(a, of_a, b, of_b, of_sum)
        assert ours.shape == theirs.shape
        assert np.array_equal(ours.numpy(), theirs)


def test_a_sum_of_codes_is_not_what_the_values_add_up_to():
    """By hand the sum is -112.50001, and so -113."""
    of_a, of_b, of_sum = (qv.QParams(*pair) for pair in SUMS[0])
    scheme = qv.Scheme("int8", "asymmetric", convention="onnxruntime")
    total = qv.dequantize([-114], scheme, of_a) + qv.dequantize([-122], scheme, of_b)
    by_hand = qv.quantize(total, scheme.replace(calibration=qv.Given(*SUMS[0][2]))).q
    assert (by_hand.item(), qv.add_codes([-114], of_a, [-122], of_b, of_sum).item()) == (-113, -112)


#: TensorFlow 2.21's TFLite kernels of an int8 MUL, asked for tensorflow issue 102943: codes of a, of zero
#: point -124, and of b, of zero point 0; what the reference kernel and XNNPACK made of them.
MUL_SCALES = (0.05296124517917633, 0.024093778803944588, 0.11484327912330627)
MUL_A = (-127, -125, -123, -127, -121, -119, 71, -7, -128, -87, -46, -5, 36, 77, 118, -97)
MUL_B = (-75, -45, -45, -15, -15, -9, 3, 5, -128, -93, -58, -23, 12, 47, 82, 118)
MADE = {
    "fixed_point": (
        -123,
        -125,
        -127,
        -125,
        -127,
        -127,
        -119,
        -119,
        -120,
        -128,
        -128,
        -128,
        -105,
        -21,
        94,
        -91,
    ),
    "float32": (-124, -126, -126, -126, -126, -126, -120, -120, -120, -128, -128, -128, -105, -21, 94, -91),
}


@pytest.mark.parametrize("arithmetic", MADE)
def test_accumulators_become_the_codes_of_tensorflow_lites_kernels(arithmetic):
    sums = [(a + 124) * b for a, b in zip(MUL_A, MUL_B, strict=True)]
    first, second, out = map(np.float32, MUL_SCALES)
    multiplier = float(first) * float(second) / float(out)
    if arithmetic == "float32":
        multiplier = float(first * second / out)
    made = qv.requantize(sums, multiplier, zero_point=-126, arithmetic=arithmetic)
    assert tuple(made.tolist()) == MADE[arithmetic]
    assert made.dtype == torch.int8


#: TensorFlow 2.21's TFLite kernel of an int8 FULLY_CONNECTED without delegates: sums of a channel, its
#: multiplier, and what became of them with zero point 8. Of 131,072 sums 112 are others if rounded twice.
CONNECTED = (
    ((-41641, 39769, 22926), 0.0010686553914921954, (-36, 50, 32)),
    ((-11207, -10632, -2011), 0.0017399716789552756, (-11, -10, 5)),
    ((17271, 21219, -14310), 0.0010132407205609094, (25, 29, -6)),
    ((13799, 8279, -71203), 0.0009058606867261641, (20, 15, -56)),
)


@pytest.mark.parametrize(("sums", "multiplier", "codes"), CONNECTED)
def test_layers_that_are_fully_connected_round_once(sums, multiplier, codes):
    made = {
        each: tuple(qv.requantize(sums, multiplier, zero_point=8, arithmetic=each).tolist())
        for each in qv.REQUANTIZATIONS
    }
    assert made["fixed_point_once"] == made["float32"] == codes
    assert all(abs(one - other) == 1 for one, other in zip(made["fixed_point"], codes, strict=True))


def test_one_rounding_in_fixed_point_is_half_up():
    sums = [-5, -3, -2, -1, 0, 1, 2, 3, 5, 2**31 - 1, -(2**31)]
    for multiplier in (0.5, 0.25, 1.5, 2.0**-31, 2.0**-40, 3e9):
        made = qv.requantize(sums, multiplier, number_format="int16", arithmetic="fixed_point_once").tolist()
        wanted = [math.floor(total * multiplier + 0.5) for total in sums]
        assert made == [max(-32768, min(32767, each)) for each in wanted], multiplier


def test_fixed_point_is_the_two_roundings_of_whole_numbers():
    """Written once more with Python's integers."""

    def rounded(total, multiplier):
        mantissa, exponent = np.frexp(multiplier)
        factor = int(np.floor(mantissa * 2**31 + 0.5))
        product = total * 2 ** max(int(exponent), 0) * factor
        high = (abs(product) + 2**30 - (product < 0)) >> 31
        high = high if product >= 0 else -high
        shift = max(-int(exponent), 0)
        if not shift:
            return high
        quotient, half = divmod(abs(high), 2**shift), 2 ** (shift - 1)
        whole = quotient[0] + (quotient[1] >= half)
        return whole if high >= 0 else -whole

    sums = [-(2**20) - 1, -585, -3, -1, 0, 1, 3, 585, 1000, 2**20 + 1]
    for multiplier in (0.0111, 0.5, 0.25, 0.999999, 1.5, 3.75, 1e-4, 1e-12):
        made = qv.requantize(sums, multiplier, number_format="int16", arithmetic="fixed_point").tolist()
        assert made == [max(-32768, min(32767, rounded(total, multiplier))) for total in sums], multiplier


def test_what_is_no_argument_is_refused():
    one = qv.QParams(0.5)
    for key, call in (
        ("accumulator_not_int32", lambda: qv.requantize([2**31], 0.5)),
        ("accumulator_not_int32", lambda: qv.requantize([0.5], 0.5)),
        ("multiplier_not_positive", lambda: qv.requantize([1], 0.0)),
        # LiteRT's reference kernel gives 1, on x86: its shift of 32 bits is one of none.
        ("multiplier_too_large", lambda: qv.requantize([1], 2.0**31, arithmetic="fixed_point")),
        ("requantization_unknown", lambda: qv.requantize([1], 0.5, arithmetic="once")),
        ("operator_needs_integers", lambda: qv.requantize([1], 0.5, number_format="nf4")),
        ("code_out_of_range", lambda: qv.requantize([1], 0.5, zero_point=128)),
        ("code_out_of_range", lambda: qv.add_codes([128], one, [1], one, one)),
        (
            "terms_beyond_xnnpack",
            lambda: qv.add_codes([1], qv.QParams(256.0), [1], one, one, arithmetic="xnnpack"),
        ),
        ("terms_differ", lambda: qv.add_codes([1, 2], one, [1, 2, 3], one, one)),
        ("operator_needs_one_scale", lambda: qv.add_codes([1], one, [1], qv.QParams([0.5, 1.0]), one)),
        ("scale_not_positive", lambda: qv.add_codes([1], one, [1], one, qv.QParams(-1.0))),
    ):
        with pytest.raises(qv.QuantVizError) as refused:
            call()
        assert refused.value.key == key


def test_shapes_are_kept():
    codes = [[0, 1, 2], [3, 4, 5]]
    one = qv.QParams(1.0)
    assert qv.add_codes(codes, one, codes, one, one).tolist() == [[0, 2, 4], [6, 8, 10]]
    assert qv.requantize(codes, 2.0).shape == (2, 3)
