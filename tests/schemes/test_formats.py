"""Every value of every format against those who define it: ml_dtypes, gfloat, torch, bitsandbytes."""

import math
import struct

import ml_dtypes
import numpy as np
import pytest
import torch

import quantviz as qv
from quantviz.quantization.grids import GRIDS, nearest
from quantviz.quantization.stored_scale import round_to_format
from quantviz.schemes.formats import FORMATS, find_format
from quantviz.streaming import coding
from quantviz.tensors.lazy import InMemory

FLOATS = [name for name, fmt in FORMATS.items() if fmt.kind == "float"]
SMALL_FLOATS = [name for name in FLOATS if FORMATS[name].bits <= 8]


def codes_of(fmt):
    return np.arange(fmt.code_min, fmt.code_max + 1)


def of_ml_dtypes(name):
    return np.float16 if name == "float16" else getattr(ml_dtypes, name)


def same_floats(one, other):
    """Equal bit for bit, the sign of 0 included; NaN is NaN."""
    one, other = np.asarray(one, np.float32), np.asarray(other, np.float32)
    nan = np.isnan(one)
    return np.array_equal(nan, np.isnan(other)) and np.array_equal(
        one.view(np.uint32)[~nan], other.view(np.uint32)[~nan]
    )


def float_points(fmt, seed=0):
    """Values, middles, their float32 neighbours, random ones, and beyond both ends: float32 inside float32's
    range.
    """
    values = np.array(sorted({value for value, _ in fmt.finite}))
    middles = (values[1:] + values[:-1]) / 2
    beyond = np.array([fmt.value_max * 1.01, fmt.value_max * 3, 2 * fmt.value_max])
    step = values[-1] - values[-2]
    ends = np.array([fmt.value_max + step / 2, fmt.value_max + step / 4, fmt.value_max + step])
    beyond = np.concatenate([beyond, ends, -beyond, -ends])
    spread = np.random.default_rng(seed).normal(size=4000) * np.exp2(
        np.random.default_rng(seed + 1).uniform(-12, 12, 4000)
    )
    with np.errstate(over="ignore"):
        points = np.concatenate([values, middles, beyond, spread]).astype(np.float32)
        points = np.concatenate(
            [points, np.nextafter(points, np.float32(np.inf)), np.nextafter(points, np.float32(-np.inf))]
        )
    points = points[np.isfinite(points)]
    return points if fmt.signed else points[points >= 0]


# ---- values -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FLOATS)
def test_every_value_is_that_of_ml_dtypes(name):
    fmt = FORMATS[name]
    codes = codes_of(fmt).astype(np.uint8 if fmt.bits <= 8 else np.uint16)
    theirs = codes.view(of_ml_dtypes(name)).astype(np.float32)
    assert same_floats([fmt.value(int(code)) for code in codes], theirs)
    # Decoding is the same table.
    decoded = GRIDS["float"].decode(torch.from_numpy(codes.astype(np.int64)), fmt)
    assert same_floats(decoded.numpy(), theirs)


@pytest.mark.parametrize(
    ("name", "its_name"),
    [
        ("float16", "binary16"),
        ("bfloat16", "bfloat16"),
        ("float8_e4m3fn", "ocp_e4m3"),
        ("float8_e5m2", "ocp_e5m2"),
        ("float8_e8m0fnu", "ocp_e8m0"),
        ("float6_e2m3fn", "ocp_e2m3"),
        ("float6_e3m2fn", "ocp_e3m2"),
        ("float4_e2m1fn", "ocp_e2m1"),
    ],
)
def test_every_value_is_that_of_gfloat(name, its_name):
    """A second opinion, of the formats that both have: another reading of the same standards."""
    import gfloat
    from gfloat import formats as theirs

    fmt = FORMATS[name]
    info = getattr(theirs, f"format_info_{its_name}")
    values = [gfloat.decode_float(info, int(code)).fval for code in codes_of(fmt)]
    assert same_floats([fmt.value(int(code)) for code in codes_of(fmt)], values)


@pytest.mark.slow
def test_nf4_is_the_table_of_bitsandbytes():
    from bitsandbytes.functional import get_4bit_type

    assert same_floats(FORMATS["nf4"].codebook, get_4bit_type("nf4", device="cpu").numpy())
    # Its fp4 is listed by code there too, -0 among them.
    assert same_floats(np.abs(FORMATS["fp4"].codebook), np.abs(get_4bit_type("fp4", device="cpu").numpy()))
    assert np.array_equal(
        np.array(FORMATS["fp4"].codebook, np.float32), get_4bit_type("fp4", device="cpu").numpy()
    )


@pytest.mark.slow
def test_dynamic8_is_the_map_of_bitsandbytes():
    from bitsandbytes.functional import create_dynamic_map

    assert same_floats(FORMATS["bnb_dynamic8"].codebook, create_dynamic_map(signed=True).numpy())


@pytest.mark.parametrize("name", FORMATS)
def test_decoding_and_encoding_are_inverse(name):
    """Every code comes back as itself, but for codes that share a value: NaNs become one, and bitsandbytes'
    fp4 has its two zeros the other way round.
    """
    fmt = FORMATS[name]
    grid = GRIDS[fmt.kind]
    codes = torch.from_numpy(codes_of(fmt))
    values = grid.decode(codes, fmt)
    back = grid.encode(values, fmt).to(torch.int64)
    other = codes[back != codes]
    if fmt.kind == "codebook":
        zeros = codes[values == 0]
        assert other.tolist() == (zeros.tolist() if len(zeros) == 2 else [])
        assert torch.equal(grid.decode(back, fmt), values)
    else:
        nan = codes[torch.isnan(values)]
        assert len(other) == max(len(nan) - 1, 0)
        assert set(other.tolist()) <= set(nan.tolist())
        assert set(back[torch.isnan(values)].tolist()) <= set(nan.tolist())
    assert values.dtype == torch.float32
    # Signed numbers in two's complement and bit codes both fit the bits there are.
    assert all(len("".join(fmt.split(int(code)))) == fmt.bits for code in codes[:: max(len(codes) // 64, 1)])


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_said_of_a_format_follows_from_its_values(name):
    fmt = FORMATS[name]
    values = [fmt.value(code) for code in fmt.codes]
    finite = [value for value in values if math.isfinite(value)]
    assert (fmt.value_min, fmt.value_max) == (min(finite), max(finite))
    assert fmt.signed == (min(finite) < 0)
    assert fmt.has_nan == any(math.isnan(value) for value in values)
    assert fmt.levels == len(values) <= 2**fmt.bits
    # float32 holds every value.
    assert all(value == struct.unpack("f", struct.pack("f", value))[0] for value in finite)
    assert [value for value, _ in fmt.finite] == sorted(finite)
    for outside in (fmt.code_min - 1, fmt.code_max + 1):
        with pytest.raises(qv.QuantVizError, match=str(outside)):
            fmt.value(outside)
    assert find_format(name) is fmt


# ---- rounding -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SMALL_FLOATS)
def test_rounding_is_that_of_ml_dtypes(name):
    """0 mismatches inside the format, halves to even."""
    fmt = FORMATS[name]
    points = float_points(fmt)
    points = points[np.abs(points) <= fmt.value_max]
    if not fmt.signed:
        points = points[points >= np.float32(fmt.value_min)]
    ours = nearest(torch.from_numpy(points), fmt, "even")
    codes = GRIDS["float"].encode(ours, fmt).numpy()
    with np.errstate(invalid="ignore"):
        theirs = points.astype(of_ml_dtypes(name)).view(np.uint8)
    different = points[codes != theirs]
    if name == "float8_e8m0fnu":
        assert_known_e8m0(points, codes, theirs, different)
    else:
        assert different.tolist() == []


def assert_known_e8m0(points, codes, theirs, different):
    """The one exception: between 2^-127 and 2^-126, which are subnormal in float32, ml_dtypes does not round
    to the nearest.
    """
    assert ((different > 2.0**-127) & (different < 2.0**-126)).all()


def test_the_committed_case_of_ml_dtypes_rounding_to_e8m0():
    """8.816206e-39 is nearer to 2^-127 than to 2^-126, and ml_dtypes makes 2^-126 of it."""
    x = np.float32(8.816206e-39)
    assert abs(float(x) - 2.0**-127) < abs(float(x) - 2.0**-126)
    assert float(x.astype(ml_dtypes.float8_e8m0fnu)) == 2.0**-126
    assert round_to_format(torch.tensor([float(x)]), FORMATS["float8_e8m0fnu"]).item() == 2.0**-127


@pytest.mark.parametrize(
    "name", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"]
)
def test_rounding_is_that_of_torch(name):
    fmt = FORMATS[name]
    points = torch.from_numpy(float_points(fmt))
    points = points[points.abs() <= fmt.value_max]
    theirs = points.to(getattr(torch, name)).to(torch.float32)
    assert same_floats(round_to_format(points, fmt).numpy() + 0.0, theirs.numpy() + 0.0)
    # A code of torch is the code here.
    view = torch.uint8 if fmt.bits <= 8 else torch.int16
    bits = points.to(getattr(torch, name)).view(view).to(torch.int32) % (1 << fmt.bits)
    assert torch.equal(GRIDS["float"].encode(nearest(points, fmt, "even"), fmt).to(torch.int32), bits)


# ---- beyond the ends ----------------------------------------------------------------------------


def beyond(name, overflow, values):
    convention = qv.CONVENTIONS["course"].replace(overflow=overflow)
    return qv.quantize(values, qv.Scheme(name, calibration=qv.Given(1.0), convention=convention), strict=True)


@pytest.mark.parametrize(
    ("name", "overflow"),
    [
        ("float8_e4m3fn", "nan"),
        ("float8_e5m2", "inf"),
        ("float8_e4m3fnuz", "nan"),
        ("float8_e5m2fnuz", "nan"),
        ("float16", "inf"),
        ("float8_e3m4", "inf"),
    ],
)
def test_overflow_is_that_of_ml_dtypes(name, overflow):
    fmt = FORMATS[name]
    points = float_points(fmt)
    points = points[np.abs(points) <= 1e38]
    with np.errstate(over="ignore", invalid="ignore"):
        theirs = points.astype(of_ml_dtypes(name)).astype(np.float32)
    ours = beyond(name, overflow, torch.from_numpy(points))
    assert same_floats(ours.x_hat.numpy() + 0.0, theirs + 0.0)
    assert bool(ours.clipped.any())


@pytest.mark.parametrize("name", ["float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn"])
def test_what_has_no_nan_saturates_as_ml_dtypes_does(name):
    points = float_points(FORMATS[name])
    theirs = points.astype(of_ml_dtypes(name)).astype(np.float32)
    for overflow in ("saturate", "inf", "nan"):
        assert same_floats(beyond(name, overflow, torch.from_numpy(points)).x_hat.numpy() + 0.0, theirs + 0.0)


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"])
def test_saturating_is_that_of_onnxruntime(name):
    """ONNX's Cast saturates by default, in every 8-bit format."""
    import onnxruntime
    from onnx import TensorProto, helper

    fmt = FORMATS[name]
    points = float_points(fmt)
    points = points[np.abs(points) <= 1e38]
    kind = getattr(TensorProto, name.upper().replace("_", ""))
    nodes = [
        helper.make_node("Cast", ["x"], ["y"], to=kind),
        helper.make_node("Cast", ["y"], ["z"], to=TensorProto.FLOAT),
    ]
    ends = [helper.make_tensor_value_info(end, TensorProto.FLOAT, [None]) for end in ("x", "z")]
    model = helper.make_model(
        helper.make_graph(nodes, "cast", ends[:1], ends[1:]),
        opset_imports=[helper.make_opsetid("", 21)],
        ir_version=10,
    )
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (theirs,) = session.run(None, {"x": points})
    ours = beyond(name, "saturate", torch.from_numpy(points)).x_hat.numpy()
    assert same_floats(ours + 0.0, theirs + 0.0)


def test_a_format_without_a_sign_has_no_number_for_negative_values():
    got = beyond("float8_e8m0fnu", "nan", [-3.0, 3.0, 0.0]).x_hat
    assert torch.isnan(got).tolist() == [True, False, True]
    assert beyond("float8_e8m0fnu", "saturate", [-3.0, 0.0]).x_hat.tolist() == [2.0**-127] * 2


@pytest.mark.slow
@pytest.mark.parametrize("overflow", ["nan", "inf"])
def test_e8m0_is_that_of_ml_dtypes_and_torch_at_both_ends(overflow):
    """Less than the smallest value is the smallest value, code 0, while it is positive; 0 and what is
    negative ml_dtypes has no number for.

    torch has 2^-127 for 0, and for a negative value that of its magnitude: what has no sign there can only be
    wrong.
    """
    tiny = 2.0**-127
    positive = [
        2.0**-149,
        1e-42,
        tiny / 4,
        tiny / 2,
        tiny * 0.51,
        tiny * 0.75,
        tiny,
        tiny * 1.75,
        2 * tiny,
        1.0,
        3.0,
        2.0**127,
        3.4e38,
    ]
    x = torch.tensor(
        [*positive, 0.0, -0.0, -(2.0**-149), -tiny, -1.0, -3.4e38, math.nan, math.inf, -math.inf],
        dtype=torch.float32,
    )
    scheme = qv.Scheme(
        "float8_e8m0fnu",
        calibration=qv.Given(1.0),
        convention=qv.CONVENTIONS["course"].replace(overflow=overflow),
        nonfinite="ignore",
    )
    got = qv.quantize(x, scheme, strict=True)
    with np.errstate(invalid="ignore"):
        theirs = x.numpy().astype(ml_dtypes.float8_e8m0fnu).view(np.uint8)
    assert got.q.tolist() == theirs.tolist()
    more = torch.tensor(positive, dtype=torch.float32)
    assert got.q[: len(positive)].tolist() == more.to(torch.float8_e8m0fnu).view(torch.uint8).tolist()
    assert got.q[:6].tolist() == [0] * 6
    coder = coding.codes(InMemory(x), scheme, got.qparams, 0, len(x), path="fused")
    assert coder[0].tolist() == got.q.tolist()


def test_a_codebook_saturates_whatever_is_asked():
    for overflow in ("saturate", "inf", "nan"):
        assert beyond("nf4", overflow, [-7.0, 7.0]).q.tolist() == [0, 15]
