"""Records what integer engines compute whose packages cannot be requirements of the tests: they are too
large, or pin other versions of what the app needs.

    python -m tests.engines.record_integers aimet|nncf|openvino|tensorflow|qserve FOLDER

It runs where the package and torch are installed; pip brings both: `aimet-onnx` and `torch`; `nncf`,
`openvino` and `torch`; `tensorflow-cpu` and `torch`. QServe's quantizer is in no index: FOLDER holds the
files of deepcompressor's repository at the commit of `COMMITS`; it imports `omniconfig`.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

import numpy as np
import torch

from tests.engines import Answer, Refused, Undefined
from tests.engines.data import DISTRIBUTIONS, OUTSIDE, Trial, half_trials, own_trials, special_trials

RECORDED = Path(__file__).parent / "recorded"
SHAPES = ((64,), (5, 7), (4, 64), (2, 4, 32))
#: Those of weights in groups.
MATRICES = ((4, 64), (2, 128), (3, 256))
#: The commit of what is in no index.
COMMITS: Mapping[str, str] = MappingProxyType({"deepcompressor": "69f3473f"})


@dataclass(frozen=True)
class Recorded:
    """One scheme that a function of the package is asked of."""

    path: str
    form: str
    #: Called with the tensor whose range is used, and the one that is quantized in it.
    ask: Callable[[torch.Tensor, torch.Tensor], Answer]
    #: Whether the zero point is the value of code 0, and no code.
    zero_is_value: bool = False


def main() -> None:
    """Ask a package's every case about every tensor and write its record."""
    torch.set_num_threads(1)
    name = sys.argv[1]
    package, cases_of = PACKAGES[name]
    shapes = MATRICES if package in COMMITS else SHAPES
    asked, cases = list(_trials(shapes, in_half=name in _IN_HALF)), list(cases_of())
    inputs = [x for trial in asked for x in (trial.x, trial.seen) if x is not None]
    arrays = {"input": np.concatenate([x.float().numpy().ravel() for x in inputs])}
    failed: dict[str, dict[str, dict[str, str]]] = {"refused": {}, "undefined": {}}
    for number, case in enumerate(cases):
        answers = []
        for trial in asked:
            try:
                answers.append(case.ask(trial.x if trial.seen is None else trial.seen, trial.x))
            except (Refused, Undefined) as why:
                failed[type(why).__name__.lower()].setdefault(case.form, {})[trial.label] = str(why)
        for part, values in _joined(answers, zero_is_value=case.zero_is_value).items():
            arrays[f"{part}{number}"] = values
    about = {
        "producer": f"{package} {COMMITS.get(package) or metadata.version(package)}",
        "settings": f"torch {torch.__version__} on CPU, in float32 where no dtype is named",
        "command": f"python -m tests.engines.record_integers {name}",
        "cases": [[case.path, case.form] for case in cases],
        "trials": [
            [trial.question, trial.label, list(trial.x.shape), trial.seen is not None] for trial in asked
        ],
        **failed,
    }
    arrays["about"] = np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)
    record = RECORDED / f"{name}.npz"
    np.savez_compressed(record, **arrays)
    print(f"{len(cases)} cases, {len(asked)} tensors, {record.stat().st_size} bytes")


def _joined(answers: list[Answer], *, zero_is_value: bool) -> dict[str, np.ndarray]:
    """Return the arrays of a case. Values are kept where codes do not give them back."""
    codes, scales, zeros, odd = [], [], [], []
    for answer in answers:
        assert answer.codes is not None
        assert answer.zero_point is not None
        codes.append(answer.codes.flatten())
        scales.append(answer.scale.flatten().to(torch.float32))
        zeros.append(answer.zero_point.flatten().to(torch.float32 if zero_is_value else torch.int32))
        back = values_of(codes[-1], scales[-1], zeros[-1])
        own = answer.x_hat.flatten()
        same = torch.equal(back.view(torch.int32), own.view(torch.int32))
        odd.append(torch.empty(0) if same else own)
    blocks = torch.tensor([len(each) for each in scales], dtype=torch.int32)
    cells = torch.tensor([len(each) for each in odd], dtype=torch.int32)
    joined = torch.cat(codes)
    narrow = np.int16 if bool((joined < 0).any()) else np.uint16
    small = joined.abs().max() < 128 if narrow is np.int16 else joined.max() < 256
    kind = {np.int16: np.int8, np.uint16: np.uint8}[narrow] if small else narrow
    return {
        "codes": joined.numpy().astype(kind),
        "scales": torch.cat(scales).numpy(),
        "zeros": torch.cat(zeros).numpy(),
        "blocks": blocks.numpy(),
        "odd": torch.cat(odd).numpy(),
        "odd_cells": cells.numpy(),
    }


def values_of(codes: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor) -> torch.Tensor:
    """Return the values of codes, flat: float32. A zero point that is no code is the value of code 0, and is
    added to the product before that is rounded.
    """
    rows = codes.reshape(len(scale), -1)
    if zero_point.dtype != torch.float32:
        return (scale[:, None] * (rows - zero_point[:, None])).flatten()
    product = scale.double()[:, None] * rows
    return (product + zero_point.double()[:, None]).to(torch.float32).flatten()


#: The packages that take half precision.
_IN_HALF = ("aimet", "nncf", "openvino", "qserve")


def _trials(shapes: Sequence[tuple[int, ...]], *, in_half: bool) -> Iterator[Trial]:
    """Yield a tensor of each distribution, `in_half` precision too, and of each range from outside and kind
    of special values.
    """
    yield from own_trials(_tensors(shapes))
    for kind, (name, outside) in enumerate(OUTSIDE.items()):
        for number, values in enumerate(("normal", "two_decimals", "ties")):
            generator = torch.Generator().manual_seed(8100 + 10 * kind + number)
            x = DISTRIBUTIONS[values](64, generator).reshape(2, 32)
            yield Trial("given range", f"{values} 2x32, {name}", x, outside(x))
    for trial in special_trials():
        if tuple(trial.x.shape) in ((2, 32), (4, 64)):
            yield trial
    # Just below a half, where a sum with a half is rounded up.
    halves = torch.nextafter(torch.arange(-32.0, 32) + 0.5, torch.tensor(0.0)).reshape(2, 32)
    ends = torch.tensor([-128.0, 127.0]).repeat(2, 16)
    yield Trial("given range", "just below halves", halves, ends)
    yield Trial("given range", "just below halves, from 0", halves, ends + 128)
    if in_half:
        yield from half_trials(_tensors(shapes))


def _tensors(shapes: Sequence[tuple[int, ...]]) -> Iterator[tuple[str, torch.Tensor]]:
    for kind, (name, make) in enumerate(DISTRIBUTIONS.items()):
        for shape in (shapes[kind % len(shapes)], shapes[(kind + 2) % len(shapes)]):
            generator = torch.Generator().manual_seed(8000 + kind)
            label = f"{name} {'x'.join(map(str, shape))}"
            yield label, make(math.prod(shape), generator).reshape(shape)


def _layout(x: torch.Tensor, granularity: str) -> torch.Tensor:
    """Return one block a row."""
    if granularity == "per_tensor":
        return x.reshape(1, -1)
    if x.dim() < 2:
        raise Refused("a tensor of one axis has no channels")
    if granularity == "per_channel(axis=0)":
        return x.reshape(x.shape[0], -1)
    size = int(granularity.removeprefix("per_group(size=").removesuffix(")"))
    if x.shape[-1] % size:
        raise Refused("groups must divide the last axis")
    return x.reshape(-1, size)


# ---- AIMET ----------------------------------------------------------------------------------------


def _aimet() -> Iterator[Recorded]:
    import ml_dtypes
    from aimet_onnx.common import libpymo  # type: ignore[import-not-found]

    def array(x: torch.Tensor) -> np.ndarray:
        # NumPy has bfloat16 by ml_dtypes alone.
        return x.float().numpy().astype(ml_dtypes.bfloat16) if x.dtype == torch.bfloat16 else x.numpy()

    def asks(granularity: str, bits: int, mode: str, own: str) -> Callable[..., Answer]:
        def ask(seen: torch.Tensor, x: torch.Tensor) -> Answer:
            rows, cells = _layout(seen, granularity), _layout(x, granularity)
            quantizer = libpymo.BlockTensorQuantizer(
                [len(rows), 1], bits, libpymo.QuantizationMode.QUANTIZATION_TF
            )
            quantizer.setStrictSymmetric("narrow" in own)
            quantizer.setUnsignedSymmetric("one_sided" in own)
            quantizer.updateStats(array(rows))
            encodings = quantizer.computeEncodings(mode == "symmetric")
            quantizer.setEncodings(encodings)
            x_hat = torch.from_numpy(np.array(quantizer.quantizeDequantize(array(cells))))
            scale = torch.tensor([each.delta for each in encodings], dtype=torch.float64)
            offset = torch.tensor([each.offset for each in encodings], dtype=torch.float64)
            codes = torch.round(x_hat.to(torch.float64) / scale[:, None]) - offset[:, None]
            if not bool(torch.isfinite(codes).all()):
                raise Undefined("an infinite range gives NaN")
            # The zero point is minus the offset that AIMET and QNN name.
            return Answer(x_hat.reshape(x.shape), codes.reshape(x.shape).to(torch.int32), scale, -offset)

        return ask

    for granularity in ("per_tensor", "per_channel(axis=0)"):
        for bits in (4, 8, 16):
            for mode, own in (
                ("asymmetric", ""),
                ("symmetric", ""),
                ("symmetric", "(narrow_range=true,unsigned_zero=lower_middle)"),
                ("symmetric", "(one_sided=asymmetric_if_positive)"),
            ):
                form = f"uint{bits},{mode},{granularity},min_max,aimet{own}"
                yield Recorded("BlockTensorQuantizer", form, asks(granularity, bits, mode, own))


# ---- NNCF -----------------------------------------------------------------------------------------


def _nncf() -> Iterator[Recorded]:
    from nncf import CompressWeightsMode as Mode  # type: ignore[import-not-found]
    from nncf.quantization.algorithms.weight_compression import (  # type: ignore[import-not-found]
        config,
        weight_lowering,
    )
    from nncf.tensor import Tensor  # type: ignore[import-not-found]

    def asks(granularity: str, mode: str) -> Callable[..., Answer]:
        how = config.WeightCompressionConfig(mode=getattr(Mode, mode), group_size=-1)

        def ask(seen: torch.Tensor, x: torch.Tensor) -> Answer:
            rows, cells = _layout(seen, granularity), _layout(x, granularity)
            scale, zero_point = weight_lowering.calculate_integer_quantization_params(
                Tensor(rows.clone()), (1,), how
            )
            made = weight_lowering.do_integer_quantization(
                Tensor(cells.clone()), how, (1,), scale, zero_point
            )
            x_hat = weight_lowering.do_integer_dequantization(made)
            zeros = torch.zeros(len(rows)) if zero_point is None else zero_point.data.flatten()
            return Answer(
                x_hat.data.reshape(x.shape), made.tensor.data.reshape(x.shape), scale.data.flatten(), zeros
            )

        return ask

    for fmt, mode, granularities in (
        ("uint8,asymmetric", "INT8_ASYM", ("per_channel(axis=0)",)),
        ("int8,symmetric", "INT8_SYM", ("per_channel(axis=0)",)),
        (
            "uint4,asymmetric",
            "INT4_ASYM",
            ("per_channel(axis=0)", "per_group(size=32)", "per_group(size=64)"),
        ),
        ("int4,symmetric", "INT4_SYM", ("per_channel(axis=0)", "per_group(size=32)", "per_group(size=64)")),
    ):
        for granularity in granularities:
            form = f"{fmt},{granularity},min_max,nncf_weights"
            yield Recorded("do_integer_quantization", form, asks(granularity, mode))


def _fake_quantize() -> Iterator[Recorded]:
    """Yield OpenVINO's operator FakeQuantize on CPU, in the ranges that `nncf.quantize` gives it.

    The plugin is told not to prepare the graph for 8-bit arithmetic: it would move the ends of ranges by a
    digit, by what else is in the graph.
    """
    import openvino  # type: ignore[import-not-found]
    from nncf.common.quantization.structs import (  # type: ignore[import-not-found]
        QuantizationScheme,
        QuantizerConfig,
        QuantizerGroup,
    )
    from nncf.common.tensor_statistics.statistics import (  # type: ignore[import-not-found]
        MinMaxTensorStatistic,
    )
    from nncf.openvino.graph.model_transformer import (  # type: ignore[import-not-found]
        OVModelTransformer,
    )
    from nncf.quantization.fake_quantize import (  # type: ignore[import-not-found]
        calculate_quantizer_parameters,
    )
    from nncf.tensor import Tensor
    from openvino import opset13 as ops

    core = openvino.Core()
    options = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1, "LP_TRANSFORMS_MODE": "NO"}
    core.set_property("CPU", options)

    def operator(cells: np.ndarray, ends: list[np.ndarray], levels: int) -> np.ndarray:
        x = ops.parameter(cells.shape, dtype=cells.dtype)
        quantized = ops.fake_quantize(x, *(constant(end, cells.dtype) for end in ends), levels)
        return core.compile_model(openvino.Model([quantized], [x]), "CPU")(cells)[0].copy()

    def constant(end: np.ndarray, dtype: np.dtype) -> Any:
        """Return an end of ranges as it is put into a graph of a dtype."""
        column = np.asarray(end, np.float32).reshape(-1, 1)
        return OVModelTransformer._create_constant(column, openvino.Type(dtype), "end")

    def asks(granularity: str, bits: int, mode: str, own: str) -> Callable[..., Answer]:
        weights = "asymmetric_if_positive" not in own
        config = QuantizerConfig(
            num_bits=bits,
            mode=getattr(QuantizationScheme, mode.upper()),
            signedness_to_force=True if weights else None,
            per_channel=granularity != "per_tensor",
            narrow_range="narrow" in own,
        )

        def ask(seen: torch.Tensor, x: torch.Tensor) -> Answer:
            if x.dtype == torch.bfloat16:
                raise Undefined("its arrays are NumPy's, which has no bfloat16")
            rows, cells = _layout(seen, granularity).numpy(), _layout(x, granularity).numpy()
            largest = np.abs(rows) if mode == "symmetric" else rows
            statistics = MinMaxTensorStatistic(
                Tensor(rows.min(1, keepdims=True)), Tensor(largest.max(1, keepdims=True))
            )
            group = QuantizerGroup.WEIGHTS if weights else QuantizerGroup.ACTIVATIONS
            with np.errstate(over="ignore", invalid="ignore"):
                made = calculate_quantizer_parameters(statistics, config, group, "stretched" in own)
                ends = (made.input_low, made.input_high)
                low, high = (constant(end.data, cells.dtype).data.astype(np.float32) for end in ends)
                scale = (high - low) / np.float32(made.levels - 1)
                width = rows.max(1).astype(np.float32) - rows.min(1)
            if not np.isfinite(scale).all() or not np.isfinite(width).all():
                raise Undefined("a range wider than float32 gives NaN")
            x_hat = operator(cells, [low, high, low, high], made.levels).astype(np.float32)
            codes = np.rint((x_hat.astype(np.float64) - low) / scale)
            if not np.isfinite(codes).all():
                raise Undefined("NaN has no code")
            return Answer(
                torch.from_numpy(x_hat).reshape(x.shape),
                torch.from_numpy(codes.astype(np.int32)).reshape(x.shape),
                torch.from_numpy(scale.ravel()),
                torch.from_numpy(low.astype(np.float32).ravel()),
            )

        return ask

    for bits in (4, 8):
        for granularity in ("per_tensor", "per_channel(axis=0)"):
            for mode, own in (
                ("asymmetric", ""),
                ("symmetric", ""),
                ("symmetric", "(narrow_range=true)"),
                ("symmetric", "(one_sided=asymmetric_if_positive)"),
                # What the overflow fix makes of the first layer's weights, or of all.
                ("symmetric", "(reduce_range=stretched)"),
                ("symmetric", "(narrow_range=true,reduce_range=stretched)"),
            ):
                # Whether there are negative values is asked of the whole tensor.
                if "one_sided" in own and granularity != "per_tensor":
                    continue
                form = f"uint{bits},{mode},{granularity},min_max,openvino_fake_quantize{own}"
                yield Recorded("FakeQuantize", form, asks(granularity, bits, mode, own), zero_is_value=True)


# ---- TensorFlow -----------------------------------------------------------------------------------


def _tensorflow() -> Iterator[Recorded]:
    import tensorflow as tf  # type: ignore[import-not-found]

    operators = tf.quantization

    def by_vars(rows: np.ndarray, lows: np.ndarray, highs: np.ndarray, **how: object) -> np.ndarray:
        made = [
            operators.fake_quant_with_min_max_vars(row, low, high, **how).numpy()
            for row, low, high in zip(rows, lows, highs, strict=True)
        ]
        return np.stack(made)

    def by_args(rows: np.ndarray, lows: np.ndarray, highs: np.ndarray, **how: object) -> np.ndarray:
        made = []
        for row, low, high in zip(rows, lows, highs, strict=True):
            if not low <= 0 <= high or low == high:
                raise Undefined("it takes no range on one side of 0, and none without width")
            made.append(operators.fake_quant_with_min_max_args(row, float(low), float(high), **how).numpy())
        return np.stack(made)

    def by_channel(rows: np.ndarray, lows: np.ndarray, highs: np.ndarray, **how: object) -> np.ndarray:
        # Its channels are on the last axis.
        made = operators.fake_quant_with_min_max_vars_per_channel(rows.T, lows, highs, **how)
        return np.asarray(made.numpy()).T

    def parameters(
        one: Callable[..., np.ndarray], low: np.float32, high: np.float32, first: int, **how: int
    ) -> tuple[np.float32, int]:
        """Return scale and zero point, which TensorFlow does not show, from what it makes of probes."""

        def probe(*values: float) -> list[float]:
            asked = np.array([values], np.float32)
            made: list[float] = one(asked, np.array([low]), np.array([high]), **how)[0].tolist()
            return made

        largest, steps = float(np.finfo(np.float32).max), 2 ** how["num_bits"] - 1 - first
        scale = (float(high) - float(low)) / steps
        # The inverse of the scale, with which the zero point is made once more, is none either.
        if 0 < max(abs(low), abs(high)) < 2.0**-100 or scale > 2.0**126:
            raise Undefined("subnormal numbers count as 0, as TensorFlow tells the processor")
        lowest, highest = probe(-largest, largest)
        if not math.isfinite(lowest + highest) or lowest == highest == 0:
            raise Undefined("a range without width, or wider than float32, gives NaN")
        zero = round(-lowest / ((highest - lowest) / steps))
        # The value next to 0 is the scale itself.
        step = float(np.float32((highest - lowest) / steps)) * (1 if zero < steps else -1)
        return np.abs(np.float32(probe(step)[0])), zero + first

    def asks(
        one: Callable[..., np.ndarray], granularity: str, bits: int, *, narrow: bool
    ) -> Callable[..., Answer]:
        how, first = {"num_bits": bits, "narrow_range": narrow}, int(narrow)

        def ask(seen: torch.Tensor, x: torch.Tensor) -> Answer:
            rows, cells = _layout(seen, granularity), _layout(x, granularity)
            if bool(((x != 0) & (x.abs() < 2.0**-126)).any()):
                raise Undefined("subnormal numbers count as 0, as TensorFlow tells the processor")
            lows, highs = rows.amin(1).numpy(), rows.amax(1).numpy()
            x_hat = torch.from_numpy(one(cells.numpy(), lows, highs, **how))
            found = [parameters(one, low, high, first, **how) for low, high in zip(lows, highs, strict=True)]
            scale = torch.from_numpy(np.array([each[0] for each in found]))
            zero = torch.tensor([each[1] for each in found])
            codes = torch.round(x_hat.double() / scale.double()[:, None]) + zero[:, None]
            if not bool(torch.isfinite(codes).all()):
                raise Undefined("NaN has no code")
            return Answer(x_hat.reshape(x.shape), codes.reshape(x.shape).to(torch.int32), scale, zero)

        return ask

    for path, one, granularity, rules in (
        ("fake_quant_with_min_max_vars", by_vars, "per_tensor", ""),
        ("fake_quant_with_min_max_args", by_args, "per_tensor", "order=from_lowest_multiply_round_add"),
        ("fake_quant_with_min_max_vars_per_channel", by_channel, "per_channel(axis=0)", ""),
    ):
        for narrow in (False, True):
            rule = ",".join(filter(None, (rules, "narrow_range=true" if narrow else "")))
            for bits in (*range(2, 9), 16):
                if narrow and bits not in (4, 8):
                    continue
                own = f"({rule})" if rule else ""
                form = f"uint{bits},asymmetric,{granularity},min_max,tensorflow_fake_quant{own}"
                yield Recorded(path, form, asks(one, granularity, bits, narrow=narrow))


# ---- QServe ---------------------------------------------------------------------------------------


def _qserve() -> Iterator[Recorded]:
    """Yield deepcompressor's quantizer as `examples/llm/configs/qoq-g128.yaml` sets it up for weights, with
    zero points of either kind; round to nearest.
    """
    # Its packages import kernels for a GPU: only the modules that are named are run.
    folder = Path(sys.argv[2]) / "deepcompressor"
    for name in ("", ".quantizer", ".utils", ".csrc", ".csrc.load"):
        package = ModuleType(f"deepcompressor{name}")
        package.__path__ = [str(folder.joinpath(*name.split(".")[1:]))]
        sys.modules[package.__name__] = package
    sys.modules["deepcompressor.csrc.load"]._C = None  # type: ignore[attr-defined]
    from deepcompressor.data.dtype import QuantDataType  # type: ignore[import-not-found]
    from deepcompressor.data.zero import ZeroPointDomain  # type: ignore[import-not-found]
    from deepcompressor.quantizer.config.base import (  # type: ignore[import-not-found]
        ProgressiveQuantizerConfig,
    )
    from deepcompressor.quantizer.impl.base import QuantizerImpl  # type: ignore[import-not-found]

    int8, uint4 = (QuantDataType.from_str(name) for name in ("sint8", "uint4"))

    def asks(size: int, domain: str) -> Callable[..., Answer]:
        config = ProgressiveQuantizerConfig(
            dtype=uint4,
            zero_point=getattr(ZeroPointDomain, domain),
            group_shapes=((1, -1), (1, size)),
            scale_dtypes=(torch.float16, int8),
            intermediate_dtypes=(int8,),
            intermediate_levels=(0,),
        )

        def ask(seen: torch.Tensor, x: torch.Tensor) -> Answer:
            if seen is not x:
                raise Undefined("its scales are those of the weights")
            if x.dim() != 2 or x.shape[-1] % size:
                raise Refused("groups must divide the columns of a matrix")
            try:
                made = QuantizerImpl(config).quantize(
                    x.clone(), return_with_quant=True, default_dtype=torch.float16
                )
            except AssertionError:
                raise Undefined("it stops at NaN or infinity, its own of large numbers included") from None
            rows, groups = made.scale.get_child(0).data, made.scale.get_child(1).data.flatten()
            row = rows.flatten().repeat_interleave(x.shape[-1] // size)
            scale, zero = row * groups, made.zero.flatten().expand(groups.shape)
            # What it calls quantized are the values: they stand where they were made of codes.
            x_hat, single = (
                made.data,
                QuantizerImpl(config).quantize(x.to(torch.float32), default_dtype=torch.float16).data,
            )
            first = torch.round(single.reshape(-1, size) / row[:, None])
            is_value = domain == "PostScale"
            codes = (
                (first + zero[:, None]) / groups[:, None]
                if is_value
                else first / groups[:, None] + zero[:, None]
            )
            assert torch.equal(codes, torch.round(codes))
            zero_point = -row * zero if is_value else zero
            return Answer(x_hat.reshape(x.shape), codes.reshape(x.shape).to(torch.int32), scale, zero_point)

        return ask

    for size in (32, 128):
        for domain, own in (("PreScale", ""), ("PostScale", "(zero_domain=value)")):
            form = f"uint4,asymmetric,per_group(size={size}),searched,qserve{own}"
            yield Recorded("QuantizerImpl", form, asks(size, domain), zero_is_value=bool(own))


#: By name: the distribution that is asked, and its cases.
PACKAGES: Mapping[str, tuple[str, Callable[[], Iterator[Recorded]]]] = MappingProxyType(
    {
        "aimet": ("aimet-onnx", _aimet),
        "nncf": ("nncf", _nncf),
        "openvino": ("openvino", _fake_quantize),
        "qserve": ("deepcompressor", _qserve),
        "tensorflow": ("tensorflow-cpu", _tensorflow),
    }
)

if __name__ == "__main__":
    main()
