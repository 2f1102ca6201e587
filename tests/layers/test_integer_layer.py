"""A layer in integers: its laws, one cell replayed, and the refusals."""

import contextlib
import math
import pickle
from functools import partial

import numpy as np
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper
from transformers.models.ibert.quant_modules import IntLayerNorm

import quantviz as qv
from quantviz.layers.built_in import BuiltInLayer
from quantviz.layers.integer_engines import ACTIVATIONS
from quantviz.layers.integers_of_layer import arithmetic_of, integers_of, operated_output, operators_after
from quantviz.quantization.integer_operators import OPERATORS
from quantviz.quantization.requantizing import as_int32, factor_and_exponent, rounded_away
from quantviz.quantization.value_to_code import fma
from quantviz.text import languages, text

GENERATOR = torch.Generator().manual_seed(7)
Q_W = torch.randint(-128, 128, (5, 33), generator=GENERATOR)
Q_X = torch.randint(0, 256, (4, 33), generator=GENERATOR)
BIAS = torch.randint(-3000, 3000, (5,), generator=GENERATOR)
S_W = [0.02, 0.011, 0.005, 0.03, 0.017]
OUT = qv.QParams(0.31, 117)
#: Engines of codes of 8 bits.
OF_8_BITS = [name for name, engine in qv.INTEGER_ENGINES.items() if engine.sums == "int32"]


def made(engine="onnxruntime", scale=S_W, zero=0, **more):
    W, X = qv.Codes(Q_W, scale, zero), qv.Codes(Q_X, 0.045, 99, "uint8")
    given = {"bias_codes": BIAS, "number_format": "uint8"} | more
    return qv.integer_layer(W, X, OUT, engine=engine, **given)


def pairs_of(x, w):
    x, w = (torch.nn.functional.pad(each.long(), (0, each.numel() % 2)) for each in (x[0], w[0]))
    return (x * w).reshape(-1, 2).sum(1).clamp(-(2**15), 2**15 - 1).sum().reshape(1, 1)


#: What the words of a line mean, written once more.
WORDS = {
    "int32": as_int32,
    "int64": lambda v: v.to(torch.int64),
    "float32": lambda v: v.to(torch.float32),
    "float64": lambda v: v.to(torch.float64),
    "dot": lambda x, w: (x.long() * w.long()).sum().reshape(1, 1),
    "dot_of_pairs": pairs_of,
    "sum": lambda q: q.sum().to(torch.int32),
    "round": torch.round,
    "round_away": rounded_away,
    "fma": lambda x, y, z: fma(*torch.broadcast_tensors(x, y, z)),
    "factor": lambda m: factor_and_exponent(m)[0],
    "exponent": lambda m: factor_and_exponent(m)[1],
    "clamp": lambda v, low, high: torch.minimum(
        torch.maximum(v, torch.as_tensor(low)), torch.as_tensor(high)
    ),
    "max": lambda a, b: torch.maximum(a, torch.as_tensor(b, dtype=a.dtype)),
    "min": lambda a, b: torch.minimum(a, torch.as_tensor(b)),
    "abs": torch.abs,
    "sign": torch.sign,
}
WIDE = ("integer_high_product", "integer_shift_up", "integer_shift_away", "integer_shift_once")


def replay(result, token, output):
    """Run each line of a cell on the values before it; each gives what its step says."""
    why = result.explain(token, output)
    values = {"q_x": why.q_x[None], "q_w": why.q_w[None]}
    for name, value in why.given.items():
        kind = torch.float32 if isinstance(value, float) else torch.int32
        values[name] = torch.tensor(value, dtype=kind)
    for step in why.steps:
        for name, value in step.inputs.items():
            assert values[name].item() == value, step
        read = values
        if step.key in WIDE:
            # Products and halves have 64 bits.
            read = {name: value.long() if name in ("acc", "y") else value for name, value in values.items()}
        if step.code_line.partition(" = ")[2].startswith(("1 /", "6 /")):
            dividend, divisor = step.code_line.partition(" = ")[2].split(" / ")
            given = torch.full_like(values[divisor], float(dividend)) / values[divisor]
        else:
            given = eval(step.code_line.partition(" = ")[2], {**WORDS, **read})
        given = given.to(getattr(torch, step.dtype))
        assert given.item() == step.output, step
        values[step.name] = given
    assert values["q"].item() == why.q == result.q[token, output].item()
    return why


@pytest.mark.parametrize("engine", OF_8_BITS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_the_steps_of_a_cell_are_those_of_the_layer(engine, activation):
    keys = set()
    for scale, zero in ((S_W, 0), (0.02, 0), (S_W, [3, -7, 0, 127, -128])):
        result = made(engine, scale, zero, activation=activation)
        for token, output in ((0, 0), (3, 4), (1, 2)):
            keys |= {step.key for step in replay(result, token, output).steps}
    for language in languages():
        assert all(text(f"steps.{key}", language) for key in keys)


@pytest.mark.parametrize("engine", OF_8_BITS)
def test_codes_are_those_of_real_numbers_to_a_step(engine):
    result = made(engine)
    real = (Q_X - 99).double() @ Q_W.double().T + BIAS
    if qv.INTEGER_ENGINES[engine].pairs == "saturated":
        assert bool(result.saturated_pairs.any())
        real = real + result.saturated_pairs
    real = real * 0.045 * torch.tensor(S_W, dtype=torch.float64)
    steps = real / 0.31 + 117
    assert torch.all((result.q - steps.clamp(0, 255)).abs() <= 0.5 + 1e-4)
    assert torch.equal(result.y, torch.tensor(0.31) * (result.q - 117))


def test_products_are_exact_in_each_expansion():
    result = made(zero=[3, -7, 0, 127, -128])
    zeros = torch.tensor([3, -7, 0, 127, -128])
    exact = (Q_X - 99) @ (Q_W - zeros[:, None]).T
    assert torch.equal(result.exact_products, exact)
    assert torch.equal(result.products.long(), exact)


def test_tokens_and_outputs_may_be_permuted():
    whole = made()
    rows = [2, 0, 3, 1]
    W, X = qv.Codes(Q_W, S_W), qv.Codes(Q_X[rows], 0.045, 99, "uint8")
    other = qv.integer_layer(W, X, OUT, bias_codes=BIAS, number_format="uint8")
    assert torch.equal(other.q, whole.q[rows])
    outputs = [4, 1, 0, 3, 2]
    W, X = qv.Codes(Q_W[outputs], [S_W[i] for i in outputs]), qv.Codes(Q_X, 0.045, 99, "uint8")
    other = qv.integer_layer(W, X, OUT, bias_codes=BIAS[outputs], number_format="uint8")
    assert torch.equal(other.q, whole.q[:, outputs])


def test_an_identity_gives_the_inputs_back():
    W, X = (
        qv.Codes(torch.eye(7, dtype=torch.int32), 1.0),
        qv.Codes(torch.arange(-128, 127).reshape(-1, 1).expand(-1, 7), 0.25, -3),
    )
    for engine in OF_8_BITS:
        if qv.INTEGER_ENGINES[engine].pairs == "exact":
            assert torch.equal(qv.integer_layer(W, X, qv.QParams(0.25, -3), engine=engine).q, X.codes)


def test_two_roundings_may_give_another_code_than_one():
    """585 · 0.011111 is 6.4999: one rounding gives 6, and two of them 7."""
    W, X, out = qv.Codes([[5]], 0.011111), qv.Codes([[117]], 1.0), qv.QParams(1.0)
    codes = {
        engine: qv.integer_layer(W, X, out, engine=engine).q.item()
        for engine in OF_8_BITS
        if "avx2" not in engine
    }
    assert {engine for engine, q in codes.items() if q == 7} == {"litert_reference", "litert_ruy", "cmsis_nn"}
    assert set(codes.values()) == {6, 7}


def test_sums_of_int16_inputs_are_beyond_int32():
    W, X = qv.Codes([[127] * 1000], 0.5), qv.Codes([[2**15 - 1] * 1000], 0.25, 0, "int16")
    given = {"bias": [0.125 * 2**33], "number_format": "int16"}
    for engine in ("litert_16x8", "litert_16x8_connected"):
        result = qv.integer_layer(W, X, qv.QParams(2.0**18), engine=engine, **given)
        exact = (2**15 - 1) * 127 * 1000 + 2**33
        why = result.explain(0, 0)
        assert (why.accumulator, why.exact_accumulator, result.notes) == (exact, exact, ())
        assert (result.q.item(), why.q) == (round(exact * 2.0**-21), result.q.item())
        moved = qv.Codes([[1] * 1000], 0.25, 3, "int16")
        with pytest.raises(qv.QuantVizError):
            qv.integer_layer(W, moved, qv.QParams(1.0), engine=engine, number_format="int16")


def test_pairs_saturate_and_seven_bits_do_not():
    X, out = qv.Codes([[255, 255]], 1.0, 0, "uint8"), qv.QParams(300.0)
    W = qv.Codes([[127, 127]], 1.0)
    full, pairs = (qv.integer_layer(W, X, out, engine=engine) for engine in ("fbgemm", "fbgemm_avx2"))
    assert (full.products.item(), pairs.products.item()) == (64770, 32767)
    assert pairs.saturated_pairs.item() == 32767 - 64770
    assert [note.key for note in (*full.notes, *pairs.notes)] == ["integer_pairs_elsewhere", "integer_pairs"]
    assert [note.params["count"] for note in (*full.notes, *pairs.notes)] == [1, 1]
    assert pairs.explain(0, 0).exact_accumulator == 64770
    half = qv.integer_layer(
        qv.Codes([[127, 127]], 1.0), qv.Codes([[127, 127]], 1.0, 0, "uint8"), out, engine="fbgemm_avx2"
    )
    assert half.products.item() == 2 * 127**2
    assert not half.notes


def test_a_bias_beyond_int32_is_clipped_or_wraps():
    W, X, out = qv.Codes([[1], [1]], [1e-6, 1.0]), qv.Codes([[1]], 1e-6), qv.QParams(1.0)
    clipped = qv.integer_layer(W, X, out, [1.0, 1.0])
    assert clipped.bias.tolist() == [2**31 - 1, 1_000_000]
    assert [note.key for note in clipped.notes] == ["integer_wraps", "integer_bias_clipped"]
    # The bias alone fits; with the product it wraps.
    assert clipped.explain(0, 0).accumulator == -(2**31)
    assert clipped.explain(0, 0).exact_accumulator == 2**31


def test_results_of_quantize_are_taken():
    w = torch.empty(6, 32).normal_(generator=torch.Generator().manual_seed(1))
    x = torch.empty(9, 32).normal_(generator=torch.Generator().manual_seed(2))
    W = qv.quantize(w, "int8_per_row")
    X = qv.quantize(x, "uint8,asymmetric,per_tensor,min_max,onnxruntime")
    bias = torch.linspace(-1, 1, 6)
    y = x @ w.T + bias
    out = qv.choose_qparams(y, "int8,asymmetric,per_tensor,min_max,onnxruntime")
    result = qv.integer_layer(W, X, out, bias)
    assert (result.y - y).abs().max() < 0.2
    assert torch.equal(pickle.loads(pickle.dumps(result)).q, result.q)
    assert "onnxruntime" in repr(result)
    assert "int32(dot" in result.explain(0, 0)._repr_html_()


def of_onnx_runtime(operator, values, **attributes):
    """The output of one node of ONNX Runtime."""
    node = helper.make_node(operator, list(values), ["y"], **attributes)
    kinds = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(each.dtype), each.shape)
        for name, each in values.items()
    ]
    result = {"ConvInteger": TensorProto.INT32, "QLinearConv": TensorProto.INT8}.get(
        operator, TensorProto.FLOAT
    )
    graph = helper.make_graph([node], "g", kinds, [helper.make_tensor_value_info("y", result, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return torch.as_tensor(session.run(None, values)[0])


def by_patches(x, w, groups=1, transposed=False, zero=0, **more):
    """The sums of a convolution, (images · places, outputs), int64: a product for each group."""
    rows = qv.patches(x, w.shape[2:], groups=groups, transposed=transposed, zero=zero, **more).long() - zero
    kernels = w.unflatten(0, (groups, -1))
    if transposed:  # (inputs, outputs of a group, …)
        kernels = kernels.transpose(1, 2)
    parts = zip(rows if groups > 1 else [rows], kernels.flatten(2), strict=True)
    return torch.cat([each @ kernel.T for each, kernel in parts], 1)


@pytest.mark.parametrize("pad", ["SAME_UPPER", "SAME_LOWER", "VALID"])
@pytest.mark.parametrize(
    ("size", "kernel", "stride", "dilation", "groups"),
    [
        ((8, 8), (3, 2), 2, 1, 1),
        ((7, 10), (3, 2), (3, 1), 1, 3),
        ((9, 5), (3, 3), 1, 1, 6),
        ((11,), (4,), 2, 1, 2),
        ((5, 4, 6), (2, 1, 3), (1, 2, 2), 1, 1),
    ],
)
def test_automatic_padding_is_that_of_onnx_runtime(pad, size, kernel, stride, dilation, groups):
    generator = torch.Generator().manual_seed(5)
    axes = len(size)
    x = torch.randint(-128, 128, (2, 6, *size), generator=generator)
    w = torch.randint(-7, 8, (12, 6 // groups, *kernel), generator=generator)
    steps = {"strides": stride, "dilations": dilation}
    steps = {name: [each] * axes if isinstance(each, int) else each for name, each in steps.items()}
    values = {"x": x.float().numpy(), "w": w.float().numpy()}
    y = of_onnx_runtime("Conv", values, auto_pad=pad, group=groups, **steps)
    found = by_patches(x, w, groups, stride=stride, dilation=dilation, padding=pad.lower())
    assert torch.equal(found, y.movedim(1, -1).reshape(-1, 12).long())


def test_onnx_runtime_leaves_first_cells_out_where_a_stride_exceeds_its_kernel_by_three():
    x, w = torch.arange(1, 6).reshape(1, 1, 5), torch.ones(1, 1, 1)
    y = of_onnx_runtime("Conv", {"x": x.float().numpy(), "w": w.numpy()}, auto_pad="SAME_UPPER", strides=[5])
    assert y.item() == 2
    assert qv.patches(x, (1,), stride=5, padding="same_upper").item() == 1


@pytest.mark.parametrize("groups", [1, 2, 6])
@pytest.mark.parametrize(
    ("size", "kernel", "stride", "pads", "dilation", "more"),
    [
        ((6,), (3,), (2,), ((1, 1),), (1,), (1,)),
        ((5, 4), (3, 2), (2, 3), ((1, 0), (0, 2)), (1, 2), (0, 0)),
        ((3, 4, 3), (2, 1, 2), (1, 2, 1), ((0, 1), (0, 0), (1, 0)), (1, 1, 2), (0, 1, 0)),
    ],
)
def test_transposed_convolutions_are_those_of_onnx_runtime(
    groups, size, kernel, stride, pads, dilation, more
):
    generator = torch.Generator().manual_seed(6)
    x = torch.randint(-128, 128, (2, 6, *size), generator=generator)
    w = torch.randint(-7, 8, (6, 12 // groups, *kernel), generator=generator)
    y = of_onnx_runtime(
        "ConvTranspose",
        {"x": x.float().numpy(), "w": w.float().numpy()},
        **{"strides": stride, "dilations": dilation, "group": groups, "output_padding": more},
        pads=[side for each in zip(*pads, strict=True) for side in each],
    )
    sides = tuple((first, last - added) for (first, last), added in zip(pads, more, strict=True))
    found = by_patches(x, w, groups, True, stride=stride, dilation=dilation, padding=sides)
    assert torch.equal(found, y.movedim(1, -1).reshape(-1, 12).long())


def test_a_transposed_convolution_pads_as_onnx_runtime_does():
    x = torch.arange(24).reshape(1, 2, 3, 4)
    w = torch.arange(36).reshape(2, 1, 3, 6) - 17
    values = {"x": x.float().numpy(), "w": w.float().numpy()}
    for pad in ("SAME_UPPER", "SAME_LOWER"):
        y = of_onnx_runtime("ConvTranspose", values, auto_pad=pad, strides=[2, 3])
        found = by_patches(x, w, 1, True, stride=(2, 3), padding=pad.lower())
        assert torch.equal(found, y.movedim(1, -1).reshape(-1, 1).long())


def test_a_depthwise_layers_codes_are_those_of_onnx_runtime():
    """3 × 3, stride 2, SAME, a scale for each channel: ConvInteger's sums and QLinearConv's codes."""
    generator = torch.Generator().manual_seed(8)
    x = torch.randint(-128, 128, (1, 4, 8, 8), generator=generator)
    w = torch.randint(-127, 128, (4, 1, 3, 3), generator=generator)
    bias = torch.randint(-2000, 2000, (4,), generator=generator)
    scales = torch.rand(4, generator=generator) * 0.01 + 0.002
    shape = {"auto_pad": "SAME_UPPER", "strides": [2, 2], "group": 4}
    unsigned = {
        "x": (x + 128).byte().numpy(),
        "w": w.to(torch.int8).numpy(),
        "z": np.array(128 - 5, np.uint8),
    }
    sums = of_onnx_runtime("ConvInteger", unsigned, **shape)
    same = {"stride": 2, "padding": "same_upper", "zero": -5, "groups": 4}
    assert torch.equal(by_patches(x, w, **same), sums.movedim(1, -1).reshape(-1, 4).long())
    values = {
        **{"x": x.to(torch.int8).numpy(), "sx": np.array(0.0078, np.float32), "zx": np.array(-5, np.int8)},
        **{"w": w.to(torch.int8).numpy(), "sw": scales.numpy(), "zw": np.zeros(4, np.int8)},
        **{"sy": np.array(0.05, np.float32), "zy": np.array(-3, np.int8), "b": bias.int().numpy()},
    }
    codes = of_onnx_runtime("QLinearConv", values, **shape)
    rows = qv.patches(x, (3, 3), **same)
    found = [
        qv.integer_layer(
            *(qv.Codes(w[n].reshape(1, -1), scales[n : n + 1]), qv.Codes(rows[n], 0.0078, -5)),
            *(qv.QParams(0.05, -3),),
            bias_codes=bias[n : n + 1],
        ).q
        for n in range(4)
    ]
    assert torch.equal(torch.cat(found, 1), codes.movedim(1, -1).reshape(-1, 4).int())


def test_one_padding_for_all_sides_gives_a_quarter_of_the_codes_of_same():
    """A public report, rebuilt: a first layer, 3 × 3 at stride 2 with SAME and a ReLU. An even size is padded
    on one side alone; padded on both, only codes that the ReLU cuts off twice are equal, 24 % of them.
    """
    generator = torch.Generator().manual_seed(9)
    x = torch.randint(-128, 128, (1, 3, 32, 32), generator=generator)
    w = torch.randint(-127, 128, (32, 3, 3, 3), generator=generator)
    values = {
        **{"x": x.to(torch.int8).numpy(), "sx": np.array(0.0078, np.float32), "zx": np.array(0, np.int8)},
        **{"w": w.to(torch.int8).numpy(), "sw": np.array(0.01, np.float32), "zw": np.array(0, np.int8)},
        **{"sy": np.array(0.1, np.float32), "zy": np.array(-128, np.int8)},
    }
    of_all = {"pads": [1, 1, 1, 1]}
    for ours, theirs in (("same_upper", {}), ("same_lower", {}), (((0, 1), (0, 1)), {"pads": [0, 0, 1, 1]})):
        attributes = {"strides": [2, 2], **(theirs or {"auto_pad": ours.upper()})}
        codes = of_onnx_runtime("QLinearConv", values, **attributes).movedim(1, -1).reshape(-1, 32).int()
        W = qv.Codes(w.flatten(1), 0.01)
        found = [
            qv.integer_layer(
                W, qv.Codes(qv.patches(x, (3, 3), stride=2, padding=pad), 0.0078), qv.QParams(0.1, -128)
            ).q
            for pad in (ours, 1)
        ]
        assert torch.equal(found[0], codes)
        if ours != "same_lower":
            assert (found[1] == codes).float().mean().item() == pytest.approx(0.24, abs=0.03)
    padded = of_onnx_runtime("QLinearConv", values, strides=[2, 2], **of_all)
    assert torch.equal(found[1], padded.movedim(1, -1).reshape(-1, 32).int())


def test_what_is_no_layer_is_refused():
    W, X = qv.Codes([[1, 2]], 0.5), qv.Codes([[3, 4]], 0.5)
    uint8, tiny = qv.Codes([[3, 4]], 0.5, 0, "uint8"), qv.Codes([[1]], 1e-30)
    grouped = qv.quantize([[1.0] * 64], "int4_g32")
    wide = qv.Codes([[3, 4]], 0.5, 0, "int16")
    of_16_bits = {"engine": "litert_16x8", "number_format": "int16"}
    for key, call in (
        ("integer.engine", lambda: qv.integer_layer(W, X, OUT, engine="none")),
        ("integer.activation", lambda: qv.integer_layer(W, X, qv.QParams(1.0), activation="gelu")),
        ("integer.two_biases", lambda: qv.integer_layer(W, X, qv.QParams(1.0), [1.0], bias_codes=[1])),
        ("integer.pairs", lambda: qv.integer_layer(W, X, qv.QParams(1.0), engine="fbgemm_avx2")),
        ("integer.pairs", lambda: qv.integer_layer(uint8, uint8, qv.QParams(1.0), engine="fbgemm_avx2")),
        ("multiplier_too_large", lambda: qv.integer_layer(W, X, qv.QParams(2.0**-40), engine="cmsis_nn")),
        ("integer.scales_in_sum", lambda: qv.integer_layer(grouped, X, OUT)),
        ("layer.width", lambda: qv.integer_layer(W, qv.Codes([[1]], 1.0), OUT)),
        ("layer.bias", lambda: qv.integer_layer(W, X, qv.QParams(1.0), [1.0, 2.0])),
        ("layer.bias", lambda: qv.integer_layer(W, X, qv.QParams(1.0), bias_codes=[1, 2])),
        ("layer.nonfinite_bias", lambda: qv.integer_layer(W, X, qv.QParams(1.0), [math.nan])),
        ("zero_point_beyond_codes", lambda: qv.integer_layer(W, X, qv.QParams(1.0, 128))),
        (
            "multiplier_not_positive",
            lambda: qv.integer_layer(tiny, tiny, OUT),
        ),
        ("operator_needs_one_scale", lambda: qv.integer_layer(W, X, qv.QParams([1.0, 2.0]))),
        ("operator_needs_integers", lambda: qv.integer_layer(W, X, qv.QParams(1.0), number_format="nf4")),
        ("integer.too_many_bits", lambda: qv.integer_layer(W, qv.Codes([[3, 4]], 1.0, 0, "int16"), OUT)),
        ("integer.wide", lambda: qv.integer_layer(W, X, OUT, engine="litert_16x8")),
        ("integer.wide_bias", lambda: qv.integer_layer(W, wide, OUT, [1e30], **of_16_bits)),
        ("integer.not_matrix", lambda: qv.Codes([1], 1.0)),
        ("integer.one_a_line", lambda: qv.Codes([[1]], [1.0, 2.0])),
        ("code_out_of_range", lambda: qv.Codes([[128]], 1.0)),
        ("code_out_of_range", lambda: qv.Codes([[1]], 1.0, 200)),
        ("scale_not_positive", lambda: qv.Codes([[1]], -1.0)),
        ("integer.no_patches", lambda: qv.patches([[1, 2]], (1, 1))),
        ("integer.no_patches", lambda: qv.patches([[[[1, 2]]]], (2, 2))),
        ("integer.padding", lambda: qv.patches([[[[1, 2]]]], (1, 1), padding="same")),
        ("integer.padding", lambda: qv.patches([[[[1, 2]]]], (1, 1), padding=((0, 1), (-1, 0)))),
        ("integer.padding", lambda: qv.patches([[[[1, 2]]]], (1, 1), padding=((0, 1),))),
        ("integer.no_patches", lambda: qv.patches([[[[1, 2]]]], (1,))),
        ("integer.no_patches", lambda: qv.patches([[[[1, 2]]]], (1, 1), stride=(1, 1, 1))),
        (
            "integer.no_patches",
            lambda: qv.patches([[[1]]], (1,), padding=((-1, 3),), transposed=True, stride=9),
        ),
        (
            "integer.too_many_patches",
            lambda: qv.patches(torch.ones(1, 1, 999, 999), (2, 2), stride=999, transposed=True),
        ),
        ("integer.too_many_patches", lambda: qv.patches(torch.ones(1, 1, 999, 999), (400, 400))),
        ("integer.groups", lambda: qv.patches([[[1, 2]]], (1,), groups=2)),
        ("index_out_of_range", lambda: qv.integer_layer(W, X, qv.QParams(1.0)).explain(0, 1)),
    ):
        with pytest.raises(qv.QuantVizError) as refused:
            call()
        assert refused.value.key == key
        assert all(refused.value.message(language) for language in languages())


def test_a_table_of_steps_has_symbols_and_words():
    why = made("litert_ruy", activation="relu6").explain(1, 2)
    for language in languages():
        rows = why.rows(language)
        assert [(row.output, row.dtype, row.code_line) for row in rows] == [
            (step.output, step.dtype, step.code_line) for step in why.steps
        ]
        assert {"Σ", "M", "M₀", "q"} <= {row.symbol for row in rows}
        assert all(row.words for row in rows)
        assert ("Z_x", 99) in {pair for row in rows for pair in row.inputs}
    assert why.rows("zh")[0].words != why.rows("en")[0].words
    with pytest.raises(qv.QuantVizError):
        why.rows("xx")


def test_the_steps_of_a_sum_lead_to_its_code():
    """By hand this one is −112.50001, and so −113."""
    nearly = ((0.02534690499305725, -106), (0.035809919238090515, -120), (0.0365859717130661, -105))
    of_a, of_b, of_sum = (qv.QParams(*pair) for pair in nearly)
    for arithmetic, code in (("onnxruntime", -112), ("litert_reference", -113)):
        steps = qv.explain_operator("add", [[-114], [-122]], [of_a, of_b], of_sum, arithmetic=arithmetic)
        assert qv.add_codes([-114], of_a, [-122], of_b, of_sum, arithmetic=arithmetic).tolist() == [code]
        assert (steps[-1].name, steps[-1].output) == ("q", code)


@pytest.mark.parametrize("engine", ["onnxruntime", "litert_ruy"])
def test_an_output_is_added_to_an_input_of_another_scale(engine):
    layer = BuiltInLayer("minilm_1_attention_output").open().result("int8_per_row", "int8_per_tensor")
    integers = integers_of(layer, engine=engine)
    found = operated_output(layer, integers, "add", 7, 31)
    # The scale of the sum, by hand: from the used tokens' values, with 0 in the range.
    x_hat = layer.inputs.quantized(slice(None))[:, :256]
    total = (integers.y + x_hat)[~layer.held_back]
    width = total.max().clamp(min=0) - total.min().clamp(max=0)
    assert float(found.params.scale) == pytest.approx(float(width) / 255, rel=1e-6)
    x = (layer.inputs.study.qparams, layer.inputs.codes(slice(None)).to(torch.int32))
    sums = qv.add_codes(
        integers.q, integers.outputs, x[1][:, :256].contiguous(), x[0], found.params, arithmetic=engine
    )
    assert found.q == int(sums[7, 31])
    assert float(found.params.scale) not in (float(integers.outputs.scale), float(integers.inputs.scale))
    assert operators_after(integers_of(layer, engine="fbgemm")) == ("layer_norm",)


@pytest.mark.parametrize("engine", ["onnxruntime", "litert_reference", "xnnpack", "qnnpack"])
def test_each_operator_after_a_layer_is_that_of_its_codes(engine):
    """All of a token's codes at once lead to the same one; a softmax and a sigmoid have the fixed scale."""
    layer = BuiltInLayer("minilm_1_attention_output").open().result("int8_per_row", "int8_per_tensor")
    integers = integers_of(layer, engine=engine)
    q, x = integers.q[7:8], integers.inputs.codes[7:8, :256].to(torch.int32)
    x_params = qv.QParams(integers.inputs.scale, integers.inputs.zero_point)
    operators = operators_after(integers)
    assert set(operators) == {name for name in OPERATORS if arithmetic_of(name, engine)}
    assert operators == ("layer_norm",) if engine == "qnnpack" else {"add", "sigmoid"} < set(operators)
    for operator in operators:
        if (operator, engine) == ("concat", "litert_reference"):
            with pytest.raises(qv.QuantVizError, match="keeps the steps"):
                operated_output(layer, integers, operator, 7, 31)
            continue
        found = operated_output(layer, integers, operator, 7, 31)
        two = operator in ("add", "mul")
        codes = qv.integer_operator(
            operator,
            [q, x] if two else [q],
            [integers.outputs, x_params] if two else [integers.outputs],
            found.params,
            arithmetic=arithmetic_of(operator, engine),
        )
        assert found.q == int(codes.flatten()[0 if operator == "average" else 31]), operator
        if operator == "layer_norm":
            # Its scale reaches from the least to the largest of the used tokens, normalized.
            y = integers.y[~layer.held_back].double()
            values = (y - y.mean(1, keepdim=True)) / (y.var(1, correction=0, keepdim=True) + 1e-5).sqrt()
            assert float(found.params.scale) == pytest.approx(
                float(values.max() - values.min()) / 255, rel=1e-5
            )
        if operator in ("sigmoid", "softmax"):
            assert (float(found.params.scale), int(found.params.zero_point)) == (1 / 256, -128)


def test_the_steps_of_each_operator_lead_to_its_code():
    draw = np.random.default_rng(3)
    for operator, arithmetics in OPERATORS.items():
        of_terms = [qv.QParams(0.25, -3), qv.QParams(0.125, 7)][: 1 + (operator in ("add", "mul"))]
        codes = [draw.integers(-128, 128, 19) for _ in of_terms]
        for arithmetic in arithmetics:
            outputs = qv.QParams(0.25, -3) if "litert" in arithmetic else qv.QParams(1 / 64, -40)
            given, how = (operator, codes, of_terms, outputs), {"arithmetic": arithmetic}
            if arithmetic == "litert_16":
                outputs = qv.QParams(2.0 ** -(12 if operator == "layer_norm" else 15))
                given = (operator, [90 * codes[0]], [qv.QParams(2.0**-12)], outputs)
                how["number_format"] = "int16"
            if arithmetic == "ibert":
                given = (operator, codes, [qv.QParams(0.25)], qv.QParams(1 / 64))
            if operator == "layer_norm":
                how["norm"] = qv.NormOptions(draw.uniform(0.5, 2, 19), draw.normal(0, 1, 19))
            found = qv.integer_operator(*given, **how).flatten()
            for at in (0, 17) if len(found) > 1 else (0,):
                steps = qv.explain_operator(*given, at=at, **how)
                assert (steps[-1].name, steps[-1].output) == ("q", int(found[at])), arithmetic
        assert len(found) == (1 if operator == "average" else 19)


def test_one_probability_of_onnx_runtime_is_its_lowest_code():
    """The exponential of a single code, times 256, is beyond float32."""
    given = ("softmax", [[5]], [qv.QParams(0.1)], qv.QParams(1 / 256, 0))
    assert qv.integer_operator(*given).tolist() == [-128]
    assert qv.explain_operator(*given)[-4].output == math.inf


@pytest.mark.filterwarnings("ignore:torch.quantize")
def test_a_normalized_code_far_beyond_the_format_saturates_as_torchs_last_codes_do():
    x = torch._make_per_tensor_quantized_tensor(torch.tensor([[-5, 9]], dtype=torch.int8), 0.1, 3)
    given = ("layer_norm", [[[-5, 9]]], [qv.QParams(0.1, 3)], qv.QParams(1e-12, -20))
    codes = torch.ops.quantized.layer_norm(x, [2], torch.ones(2), torch.zeros(2), 1e-5, 1e-12, -20).int_repr()
    assert qv.integer_operator(*given, arithmetic="fbgemm").tolist() == codes.tolist() == [[-128, 127]]


@pytest.mark.filterwarnings("ignore:torch.quantize")
def test_a_norm_of_many_codes_does_not_overflow():
    """pytorch/pytorch 54837, rebuilt: the squares of a large picture's codes sum up beyond int32."""
    codes = torch.full((1, 400_000), 255)
    codes[0, ::1000] = 7
    x = torch._make_per_tensor_quantized_tensor(codes.byte(), 0.0078125, 0)
    ends = torch.ones(400_000), torch.zeros(400_000)
    wanted = torch.ops.quantized.layer_norm(x, [400_000], *ends, 1e-5, 0.05, 3).int_repr()
    given = ("layer_norm", [codes], [qv.QParams(0.0078125)], qv.QParams(0.05, 3))
    found = qv.integer_operator(*given, number_format="uint8", arithmetic="fbgemm")
    assert torch.equal(found, wanted)
    assert len(found.unique()) == 2


def test_i_berts_norm_has_no_code_for_a_row_of_one_value():
    """kssteven418/I-BERT 31, rebuilt: such a row, as that of a masked token, is NaN there."""
    rows = torch.tensor([[7.0, 7.0, 7.0, 7.0], [7.0, 7.0, 7.0, 8.0]]).double()
    norm = IntLayerNorm(4, 0.0, quant_mode=True)
    for values in norm.parameters():
        values.data.fill_(1.0)
    theirs = [norm(row[None, None], torch.ones(1).double())[0].isnan().any().item() for row in rows]
    assert theirs == [True, False]
    for row, broken in zip(rows.int(), theirs, strict=True):
        call = partial(qv.integer_operator, "layer_norm", [row[None]], [qv.QParams(1.0)], qv.QParams(0.1))
        with pytest.raises(qv.QuantVizError, match="alike") if broken else contextlib.nullcontext():
            call(arithmetic="ibert")


def test_operators_have_words_for_each_step():
    lists = [operations for arithmetics in OPERATORS.values() for operations in arithmetics.values()]
    keys = {operation.key for operations in lists for operation in operations}
    assert all(text(f"steps.{key}", language) for key in keys for language in languages())


def test_what_is_no_sum_or_average_is_refused():
    one = qv.QParams(1.0)
    for key, call in (
        ("requantization_unknown", lambda: qv.add_codes([1], one, [1], one, one, arithmetic="none")),
        ("requantization_unknown", lambda: qv.average_codes([1], one, one, arithmetic="none")),
        ("zero_point_not_integer", lambda: qv.average_codes([1], qv.QParams(1.0, 0.5), one)),
        ("code_out_of_range", lambda: qv.average_codes([1000], one, one)),
        ("operator_unknown", lambda: qv.integer_operator("gelu", [[1]], [one], one)),
        ("operator_terms", lambda: qv.integer_operator("mul", [[1]], [one], one)),
        ("operator_terms", lambda: qv.integer_operator("concat", [[1], [1]], [one], one)),
        ("requantization_unknown", lambda: qv.integer_operator("tanh", [[1]], [one], one)),
        ("scales_differ", lambda: qv.average_codes([1], one, qv.QParams(2.0), arithmetic="litert_pool")),
        (
            "scales_differ",
            lambda: qv.integer_operator("concat", [[1]], [one], qv.QParams(1.0, 3), arithmetic="litert"),
        ),
        *(
            (
                "operator_of_16_bits",
                partial(
                    *(qv.integer_operator, "tanh", [[1]], [x], y),
                    number_format=kind,
                    arithmetic="litert_16",
                ),
            )
            for x, y, kind in (
                (one, one, "int16"),
                (qv.QParams(4.0), qv.QParams(2.0**-15), "int16"),
                (qv.QParams(1.0, 1), qv.QParams(2.0**-15), "int16"),
                (one, qv.QParams(2.0**-15), "int8"),
            )
        ),
        ("index_out_of_range", lambda: qv.explain_operator("softmax", [[1, 2]], [one], one, at=2)),
        ("norm_weight", lambda: qv.integer_operator("softmax", [[1, 2]], [one], one, norm=qv.NormOptions())),
        ("norm_eps", lambda: qv.NormOptions(eps=-1.0)),
        *(
            (key, partial(qv.integer_operator, "layer_norm", [[1, 2]], [x], one, arithmetic=name, norm=norm))
            for key, x, name, norm in (
                ("norm_numbers", one, "fbgemm", qv.NormOptions([1.0])),
                ("norm_numbers", one, "fbgemm", qv.NormOptions(bias=[1.0, math.nan])),
                ("norm_weight_zero", one, "ibert", qv.NormOptions([1.0, 0.0])),
                ("operator_symmetric", qv.QParams(1.0, 3), "ibert", None),
                ("requantization_unknown", one, "onnxruntime", None),
            )
        ),
        (
            "norm_weight_zero",
            lambda: qv.integer_operator(
                *("layer_norm", [[1, 2]], [one], qv.QParams(2.0**-12)),
                **{"number_format": "int16", "arithmetic": "litert_16", "norm": qv.NormOptions([0.0, 0.0])},
            ),
        ),
    ):
        with pytest.raises(qv.QuantVizError) as refused:
            call()
        assert refused.value.key == key


def test_every_engine_has_its_words():
    for language in languages():
        for engine in qv.INTEGER_ENGINES:
            assert text(f"integer_engines.{engine}.name", language)
            assert text(f"integer_engines.{engine}.help", language)
