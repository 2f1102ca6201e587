"""The layers that engines are asked of: drawn by a seed, with sizes of 1, odd sizes, codes at their ends."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

import quantviz as qv

ENDS = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-(2**15), 2**15 - 1)}
#: Tokens, inputs, outputs.
SIZES = (
    *((1, 1, 1), (1, 1, 5), (3, 7, 2), (2, 16, 1), (5, 2, 17), (17, 33, 5)),
    *((4, 64, 16), (1, 127, 9), (6, 3, 64), (9, 255, 3), (2, 512, 31), (33, 5, 33)),
)
#: Multipliers of few digits, so that accumulators tie, and others from small to above 1.
MULTIPLIERS = (
    *(0.5, 0.25, 2.0**-6, 3 * 2.0**-6, 2.0**-14, 0.0111, 0.75, 0.9),
    *(0.0007, 1e-5, 2.0**-24, 1.0, 1.5, 3.75, 0.3, 0.05, 0.123, 1e-6, 3e-6, 0.0625, 2.0**-9, 200.0),
)
_LARGEST = 2**31 - 1


@dataclass(frozen=True, eq=False)
class Convolution:
    """The geometry of a convolution: its pictures (1, channels, height, width), and its kernels."""

    pictures: np.ndarray
    kernel: tuple[int, int]
    stride: int
    padding: int
    dilation: int


@dataclass(frozen=True, eq=False)
class Layer:
    """A layer in codes."""

    q_x: np.ndarray
    x_format: str
    s_x: np.float32
    z_x: int
    q_w: np.ndarray
    w_format: str
    #: One, or one for each output.
    s_w: np.ndarray
    z_w: np.ndarray
    s_y: np.float32
    z_y: int
    bias: np.ndarray | None = None
    real_bias: np.ndarray | None = None
    activation: str = "none"
    convolution: Convolution | None = None


def layers(
    x_format: str,
    w_format: str,
    *,
    weight_zeros: bool = False,
    activations: Sequence[str] = ("none",),
    bias: bool = True,
    count: int = 24,
) -> tuple[Layer, ...]:
    """Return layers that are drawn by a seed, every sixth of them with codes at their ends."""
    draw = np.random.default_rng([11, len(x_format), len(w_format), weight_zeros])
    made = []
    for number in range(count):
        tokens, inputs, outputs = SIZES[number % len(SIZES)]
        q_x = draw.integers(*ENDS[x_format], (tokens, inputs), endpoint=True)
        q_w = draw.integers(*ENDS[w_format], (outputs, inputs), endpoint=True)
        if number % 6 == 5:
            q_x[:] = ENDS[x_format][number // 6 % 2]
            q_w[:] = ENDS[w_format][number // 12 % 2]
        layer = _layer(draw, q_x, x_format, q_w, w_format, number, weight_zeros=weight_zeros)
        added = draw.integers(-(2**15), 2**15, outputs) if bias and number % 4 else None
        made.append(
            _scaled(draw, replace(layer, bias=added, activation=activations[number % len(activations)]))
        )
    return tuple(made)


def _layer(
    draw: np.random.Generator,
    q_x: np.ndarray,
    x_format: str,
    q_w: np.ndarray,
    w_format: str,
    number: int,
    *,
    weight_zeros: bool,
) -> Layer:
    """Return codes with scales, one for each output where the number is odd."""
    outputs = len(q_w) if number % 2 else 1
    zeros = np.zeros(outputs, np.int64)
    if weight_zeros:
        zeros[:] = draw.integers(*ENDS[w_format], endpoint=True)
    return Layer(
        q_x,
        x_format,
        np.float32(draw.uniform(0.001, 0.1)),
        int(draw.integers(*ENDS[x_format], endpoint=True)),
        q_w,
        w_format,
        draw.uniform(0.001, 0.1, outputs).astype(np.float32),
        zeros,
        np.float32(1),
        int(draw.integers(*ENDS[x_format], endpoint=True)),
    )


def _scaled(draw: np.random.Generator, layer: Layer) -> Layer:
    """Return the layer with a scale of the outputs under which some codes saturate."""
    sums = (layer.q_x - layer.z_x) @ (layer.q_w - layer.z_w[:, None]).T
    if layer.bias is not None:
        sums = sums + layer.bias
    real = np.abs(sums * layer.s_w * layer.s_x).max()
    return replace(layer, s_y=np.float32(max(real, 1e-3) / draw.uniform(60, 600)))


def tied_sixes() -> tuple[Layer, ...]:
    """Return layers of int8 with ReLU6 whose limit, 6 / scale, lies half-way between two codes."""
    scales = (4.0, 12.0, 2.4, 0.8, 12 / 7, 4 / 3, 12 / 9, 12 / 11)
    return tuple(
        replace(layer, s_y=np.float32(scale), activation="relu6")
        for scale, layer in zip(scales * 3, near_ties("int8"), strict=False)
        if layer.s_x == 0.5
    )


@functools.cache
def near_ties(x_format: str, *, w_format: str = "int8", by_output: bool = False) -> tuple[Layer, ...]:
    """Return layers whose accumulators are their biases: small ones, ends of int32, those next to a tie."""
    draw = np.random.default_rng(23)
    made = []
    zeros = (-5, 90) if x_format == "int8" else (100, 250)
    for number, multiplier in enumerate((*MULTIPLIERS, *MULTIPLIERS)):
        # Scales of few digits lead to ties, those of many to products that are rounded.
        s_x, s_w = (
            (np.float32(0.5), np.float32(0.25)) if number % 3 else draw.uniform(0.001, 0.1, 2).astype("f")
        )
        ties = (np.arange(-130, 131) + 0.5) / multiplier
        near = np.concatenate([np.rint(ties) + each for each in (-1, 0, 1)])
        most = int(min(140 / multiplier + 2, _LARGEST))
        drawn = draw.integers(-most, most, 300)
        bias = np.concatenate(
            [near, drawn, np.arange(-60, 61), [-(2**31), 1 - 2**31, _LARGEST - 1, _LARGEST]]
        )
        bias = np.unique(np.clip(bias, -(2**31), _LARGEST).astype(np.int64))
        # The inputs are the zero point: no product is other than 0.
        q_x = np.full((1, 1 + number % 3), 3)
        q_w = draw.integers(1, 120, (len(bias), q_x.shape[1]))
        made.append(
            Layer(
                q_x,
                x_format,
                s_x,
                3,
                q_w,
                w_format,
                np.full(len(bias) if by_output else 1, s_w),
                np.zeros(len(bias) if by_output else 1, np.int64),
                np.float32(s_x * s_w / multiplier),
                zeros[number % 2],
                bias,
            )
        )
    return tuple(made)


def convolutions(
    x_format: str,
    w_format: str = "int8",
    *,
    weight_zeros: bool = False,
    same_padding: bool = False,
    activations: Sequence[str] = ("none",),
    by_output: bool = False,
) -> tuple[Layer, ...]:
    """Return convolutions as matrices, with the pictures and the geometry that they are of."""
    draw = np.random.default_rng([31, len(x_format), weight_zeros])
    made = []
    for number in range(24):
        channels, outputs = (int(draw.choice((1, 2, 3, 5, 16))) for _ in range(2))
        size = int(draw.choice((1, 3) if same_padding else (1, 2, 3)))
        dilation = 1 if same_padding else int(draw.integers(1, 3))
        stride = int(draw.integers(1, 3))
        padding = int(draw.integers(0, 2))
        if same_padding:
            stride = 1 if padding else stride
            padding = (size - 1) // 2 if padding else 0
        low = dilation * (size - 1) + 1
        height, width = (int(draw.integers(low, low + 6)) for _ in range(2))
        pictures = draw.integers(*ENDS[x_format], (1, channels, height, width), endpoint=True)
        q_w = draw.integers(*ENDS[w_format], (outputs, channels * size * size), endpoint=True)
        if number % 6 == 5:
            q_w[:] = ENDS[w_format][0]
        odd = 1 if by_output else number
        layer = _layer(draw, np.zeros((1, 1)), x_format, q_w, w_format, odd, weight_zeros=weight_zeros)
        q_x = qv.patches(
            pictures, (size, size), stride=stride, padding=padding, dilation=dilation, zero=layer.z_x
        ).numpy()
        layer = replace(
            layer,
            q_x=q_x.astype(np.int64),
            bias=draw.integers(-(2**15), 2**15, outputs),
            activation=activations[number % len(activations)],
            convolution=Convolution(pictures, (size, size), stride, padding, dilation),
        )
        made.append(_scaled(draw, layer))
    return tuple(made)


@functools.cache
def wide_layers(*, by_output: bool = False) -> tuple[Layer, ...]:
    """Return layers of int16 inputs, whose sums may be beyond int32; those without products are biases."""
    draw = np.random.default_rng([47, by_output])
    made = []
    for number, (tokens, inputs, outputs) in enumerate(SIZES * 4):
        low, high = ENDS["int16"]
        q_x = draw.integers(low, high, (tokens, inputs), endpoint=True)
        q_w = draw.integers(*ENDS["int8"], (outputs, inputs), endpoint=True)
        if number % 5 == 1:
            q_x[:] = (low, high, 0)[number % 3]
            q_w[:] = -128
        s_w = draw.uniform(0.001, 0.1, outputs if by_output else 1)
        s_x = draw.uniform(1e-5, 1e-3)
        if number % 3 == 0:
            # Under powers of two products tie.
            s_x, s_w = 2.0**-12, np.exp2(np.round(np.log2(s_w)))
        layer = Layer(
            *(q_x, "int16", np.float32(s_x), 0, q_w, "int8", s_w.astype(np.float32)),
            *(np.zeros(len(s_w), np.int64), np.float32(1), 0),
            bias=draw.integers(-(2**28), 2**28, outputs) if number % 4 else None,
            activation=("none", "relu", "relu6")[number // 2 % 3],
        )
        layer = _scaled(draw, layer)
        scale = float(layer.s_y) / 256
        s_y = 2.0 ** np.ceil(np.log2(scale)) if number % 3 == 0 else scale
        made.append(replace(layer, s_y=np.float32(s_y)))
    return tuple(made)


def one_by_one(layer: Layer) -> tuple[Layer, ...]:
    """Return each token of a layer as a layer of its own, with its own scale, zero point and bias codes:
    these real numbers are the same for all.
    """
    draw = np.random.default_rng([43, *layer.q_x.shape, len(layer.q_w)])
    made = []
    for token in layer.q_x:
        s_x = np.float32(layer.s_x * 2.0 ** draw.uniform(-2, 2))
        z_x = int(draw.integers(*ENDS[layer.x_format], endpoint=True))
        bias = None if layer.bias is None else np.rint(layer.bias * float(layer.s_x) / float(s_x))
        own = None if bias is None else bias.astype(np.int64)
        made.append(replace(layer, q_x=token[None], s_x=s_x, z_x=z_x, bias=own))
    return tuple(made)


@dataclass(frozen=True, eq=False)
class Grouped:
    """A convolution in groups of channels."""

    #: All of it, as an engine is given it; its `q_x` is that of no group.
    whole: Layer
    #: A layer for each group.
    parts: tuple[Layer, ...]


def grouped_convolutions(
    x_format: str,
    w_format: str = "int8",
    *,
    depthwise: bool,
    weight_zeros: bool = False,
    same_padding: bool = False,
    activations: Sequence[str] = ("none",),
    by_output: bool = False,
) -> tuple[Grouped, ...]:
    """Return convolutions in groups of channels; in a depthwise one each channel is a group."""
    draw = np.random.default_rng([37, len(x_format), len(w_format), weight_zeros, depthwise])
    made = []
    for number in range(24):
        groups = int(draw.choice((2, 3, 5, 8, 17)))
        channels = 1 if depthwise else int(draw.choice((2, 3, 8)))
        outputs = int(draw.choice((1, 2, 4)))
        size = int(draw.choice((1, 3) if same_padding else (1, 2, 3)))
        dilation = 1 if same_padding else int(draw.integers(1, 3))
        padding = (size - 1) // 2 if same_padding else int(draw.integers(0, 2))
        stride = 1 if same_padding else int(draw.integers(1, 3))
        low = dilation * (size - 1) + 1
        height, width = (int(draw.integers(low, low + 6)) for _ in range(2))
        pictures = draw.integers(*ENDS[x_format], (1, groups * channels, height, width), endpoint=True)
        q_w = draw.integers(*ENDS[w_format], (groups * outputs, channels * size * size), endpoint=True)
        if number % 6 == 5:
            q_w[:] = ENDS[w_format][0]
        odd = 1 if by_output else number
        whole = _layer(draw, np.zeros((1, 1)), x_format, q_w, w_format, odd, weight_zeros=weight_zeros)
        bias = draw.integers(-(2**13), 2**13, len(q_w))
        parts: list[Layer] = []
        for group in range(groups):
            own = slice(group * outputs, (group + 1) * outputs)
            seen = pictures[:, group * channels : (group + 1) * channels]
            q_x = qv.patches(
                seen, (size, size), stride=stride, padding=padding, dilation=dilation, zero=whole.z_x
            ).numpy()
            part = replace(
                whole,
                q_x=q_x.astype(np.int64),
                q_w=q_w[own],
                s_w=whole.s_w[own] if len(whole.s_w) > 1 else whole.s_w,
                z_w=whole.z_w[own] if len(whole.z_w) > 1 else whole.z_w,
                bias=bias[own],
                activation=activations[number % len(activations)],
                convolution=Convolution(seen, (size, size), stride, padding, dilation),
            )
            part = _scaled(draw, part)
            parts.append(replace(part, s_y=parts[0].s_y) if parts else part)
        first = parts[0]
        geometry = Convolution(pictures, (size, size), stride, padding, dilation)
        whole = replace(whole, s_y=first.s_y, bias=bias, activation=first.activation, convolution=geometry)
        made.append(Grouped(whole, tuple(parts)))
    return tuple(made)


def with_real_biases(made: Sequence[Layer]) -> Iterator[Layer]:
    """Yield layers with real numbers as their biases, half of them next to a tie of the accumulator."""
    draw = np.random.default_rng(41)
    for number, layer in enumerate(made):
        if layer.bias is None:
            yield layer
            continue
        scale = layer.s_x * layer.s_w
        shift = (
            draw.uniform(-1, 1, len(layer.bias)) if number % 2 else 0.5 * draw.integers(0, 2, len(layer.bias))
        )
        yield replace(layer, bias=None, real_bias=((layer.bias + shift) * scale).astype(np.float32))


def tensor(values: np.ndarray, kind: str) -> torch.Tensor:
    """Return codes as a tensor of their format."""
    return torch.from_numpy(values.astype(kind))


@functools.cache
def saturating_layers() -> tuple[Layer, ...]:
    """Return layers of large codes, and some of codes of 7 bits, whose scales are powers of two."""
    draw = np.random.default_rng(61)
    made = []
    for number, layer in enumerate(layers("uint8", "int8", bias=False)):
        largest = 127 if number % 4 == 3 else 255
        q_x = draw.integers(largest // 2, largest, layer.q_x.shape, endpoint=True)
        q_w = draw.integers(90, 127, layer.q_w.shape, endpoint=True) * draw.choice((-1, 1), layer.q_w.shape)
        if largest == 127:
            q_w = q_w // 2
        widest = np.abs((q_x - layer.z_x) @ q_w.T).max() / 100
        made.append(
            replace(
                layer,
                q_x=q_x,
                q_w=q_w,
                s_x=np.float32(0.5),
                s_w=np.exp2(np.round(np.log2(layer.s_w))).astype(np.float32),
                s_y=np.float32(2.0 ** np.ceil(np.log2(widest * layer.s_w.max()))),
                real_bias=np.zeros(len(q_w), np.float32),
            )
        )
    return tuple(made)
