"""What stands between layers: the codes that engines are asked of, by operator, and both engines' kernels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch

import quantviz as qv
from tests.engines.integer import Path
from tests.engines.integer.layers import ENDS

Params = tuple[float, int]


@dataclass(frozen=True, eq=False)
class Case:
    """Codes of each term, with their scales and zero points and those of the outputs."""

    codes: tuple[np.ndarray, ...]
    params: tuple[Params, ...]
    outputs: Params
    kind: str
    #: The weight, bias and eps of a LayerNorm.
    how: Mapping[str, Any] = field(default_factory=dict)


#: Scales and zero points of outputs that LiteRT has fixed, of int8.
FIXED = {"sigmoid": (1 / 256, -128), "tanh": (1 / 128, 0), "softmax": (1 / 256, -128)}
_SHAPES = ((5, 33), (1, 1), (4, 16), (3, 7), (2, 256), (9, 2))


def cases(operator: str, kinds: Sequence[str], outputs: Params | None = None) -> tuple[Case, ...]:
    """Return codes drawn by a seed: zero points at the ends and between, all codes alike, and all codes.

    `outputs` has the scale and zero point of the outputs; None draws them.
    """
    return tuple(_drawn(operator, kinds, outputs))


def _drawn(operator: str, kinds: Sequence[str], outputs: Params | None) -> Iterator[Case]:
    draw = np.random.default_rng([91, len(operator), len(kinds)])
    terms = 2 if operator in ("mul", "concat") else 1
    for number in range(48):
        kind = kinds[number % len(kinds)]
        low, high = ENDS[kind]
        shape = _SHAPES[number % len(_SHAPES)][:: -1 if operator == "average" else 1]
        codes = [draw.integers(low, high, shape, endpoint=True) for _ in range(terms)]
        if number % 8 == 7:
            codes = [np.full(shape, each.flat[0]) for each in codes]
        elif shape[1] == high - low + 1:
            codes[0][:] = np.arange(low, high + 1)
        zeros = (low, high, *(int(zero) for zero in draw.integers(low, high, 2, endpoint=True)))
        params = tuple(
            (_scale(draw, operator, number), zeros[(number + term) % len(zeros)]) for term in range(terms)
        )
        made = (_outputs(operator, params, draw, number), zeros[number // 4 % 4])
        yield Case(tuple(codes), params, outputs or made, kind)


def _scale(draw: np.random.Generator, operator: str, number: int) -> float:
    """Return a power of two, under which results tie, or a scale of many digits."""
    if operator == "sigmoid" and number % 2:
        # At −ln 511 sigmoid is half a step of 1/256.
        return float(np.float32(np.log(511) / draw.integers(25, 60)))
    return float(np.float32(2.0 ** draw.integers(-7, -2) if number % 3 else draw.uniform(0.002, 0.2)))


def _outputs(operator: str, params: Sequence[Params], draw: np.random.Generator, number: int) -> float:
    """Return a scale of the outputs under which some codes saturate."""
    if operator in FIXED:
        # Half of sigmoid ties at a scale of 0.2.
        scales = (1 / 256, draw.uniform(1 / 400, 1 / 90), 0.2, draw.uniform(1 / 400, 1 / 90))
        return float(np.float32(scales[number % 4]))
    product = float(np.prod([scale for scale, _ in params]))
    size = product * 64 if operator == "mul" else params[0][0]
    return float(np.float32(size * (2.0 if number % 2 else draw.uniform(0.5, 2))))


def cases_of_16_bits(operator: str) -> tuple[Case, ...]:
    """Return int16 codes under scales of 10⁻⁵ to 3, powers of two among them: all codes, and for softmax rows
    of 1 to 200, some alike and some far below the largest.
    """
    draw = np.random.default_rng(17)
    found = []
    for number in range(24):
        ends = (1e-5, 0.01) if number % 2 else (0.01, 3.0)
        scale = draw.uniform(*ends) if number % 3 else 2.0 ** draw.integers(-14, 1)
        codes = np.arange(-(2**15), 2**15, 7)[None]
        if operator == "softmax":
            codes = draw.integers(-(2**15), 2**15, (30, (1, 2, 5, 33, 200)[number % 5]))
            codes = (codes * (1.0, 0.1, 0.002, 0.0)[number % 4]).astype(int)
        found.append(Case((codes,), ((float(np.float32(scale)), 0),), (2.0**-15, 0), "int16"))
    return tuple(found)


def norms(kinds: Sequence[str], *, symmetric: bool = False) -> Iterator[Case]:
    """Yield rows of codes with the weights and biases of a LayerNorm; some rows are nearly alike."""
    draw = np.random.default_rng([29, len(kinds)])
    for number in range(48):
        kind = kinds[number % len(kinds)]
        low, high = ENDS[kind]
        shape = (3, (1, 2, 5, 31, 32, 33, 64, 200, 384)[number % 9 or symmetric])
        codes = draw.integers(low, high, shape, endpoint=True)
        if number % 4 == 3:
            codes = codes // ((high - low) // 4)
            codes[:, -1] = codes[:, 0] + 1
        zeros = (0, 0) if symmetric else draw.integers(low, high, 2, endpoint=True)
        scales = [2.0 ** draw.integers(-7, -3) if number % 3 else draw.uniform(0.004, 0.1) for _ in range(2)]
        pairs = [(float(np.float32(scale)), int(zero)) for scale, zero in zip(scales, zeros, strict=True)]
        how = {"weight": draw.normal(1, 0.4, shape[1]), "bias": draw.normal(0, 0.5, shape[1])}
        how = {name: values.astype(np.float32) for name, values in how.items()} if number % 5 else {}
        if number % 2 and not symmetric:
            how["eps"] = 1e-12
        yield Case((codes,), (pairs[0],), pairs[1], kind, how)


def ours(case: Case, operator: str, arithmetic: str) -> torch.Tensor:
    """Return our codes."""
    params = [qv.QParams(*each) for each in case.params]
    how = {"number_format": case.kind, "arithmetic": arithmetic}
    if operator == "layer_norm":
        how["norm"] = qv.NormOptions(**case.how)
    return qv.integer_operator(operator, case.codes, params, qv.QParams(*case.outputs), **how)


def of_onnxruntime(run: Any) -> tuple[Path, ...]:
    """Return the paths of ONNX Runtime's operators; `run` asks one."""
    kernels = {"mul": "QLinearMul", "concat": "QLinearConcat", "sigmoid": "QLinearSigmoid"}
    kernels["softmax"] = "QLinearSoftmax"
    return tuple(
        Path(
            kernel,
            f'`integer_operator("{operator}")`',
            partial(cases, operator, ("int8", "uint8")),
            partial(_asked, run=run, kernel=kernel),
            partial(ours, operator=operator, arithmetic="onnxruntime"),
        )
        for operator, kernel in kernels.items()
    )


def _asked(case: Case, run: Any, kernel: str) -> np.ndarray:
    """Return the answer of one of ONNX Runtime's operators."""
    feeds: dict[str, np.ndarray] = {}
    names = ("a", "b")[: len(case.codes)]
    for name, codes, pair in (*zip(names, case.codes, case.params, strict=True), ("y", None, case.outputs)):
        if codes is not None:
            feeds[name] = codes.astype(case.kind)
        feeds[f"{name}_scale"] = np.asarray(pair[0], np.float32)
        feeds[f"{name}_zero"] = np.asarray(pair[1], case.kind)
    how: Mapping[str, Any] = {}
    if kernel == "QLinearConcat":
        feeds = {name: feeds.pop(name) for name in ("y_scale", "y_zero")} | feeds
        how = {"axis": -1}
    elif kernel == "QLinearSoftmax":
        how = {"axis": -1, "opset": 13}
    answer: np.ndarray = run(kernel, feeds, case.kind, domain="com.microsoft", **how)
    return answer
