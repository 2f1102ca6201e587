"""Records what microxcaling computes: it is on no package index, so the repository keeps its answers instead
of installing it.

    python -m tests.engines.record_microxcaling FOLDER

FOLDER holds the package `mx` of microsoft/microxcaling, commit `COMMIT`. Only its `mx_ops`, `elemwise_ops`
and `formats` (and what they import) are run, on CPU.
"""

from __future__ import annotations

import importlib
import json
import math
import sys
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np
import torch

from tests.engines import Refused, Undefined
from tests.engines.data import DISTRIBUTIONS, Trial, half_trials, own_trials, special_trials

COMMIT = "e89a23bb"
RECORD = Path(__file__).parent / "recorded" / "microxcaling.npz"


def _magnitudes(exponent_bits: int, mantissa_bits: int, count: int) -> tuple[float, ...]:
    """The first `count` magnitudes of a float format, in the order of their bit codes."""
    bias, steps = 2 ** (exponent_bits - 1) - 1, 2**mantissa_bits
    return tuple(
        math.ldexp(m, 1 - bias - mantissa_bits) if e == 0 else math.ldexp(steps + m, e - bias - mantissa_bits)
        for e, m in (divmod(c, steps) for c in range(count))
    )


#: The engine's name of each element format and its magnitudes; none for integers.
FORMATS: Mapping[str, tuple[str, tuple[float, ...] | None]] = MappingProxyType(
    {
        "float8_e4m3fn": ("fp8_e4m3", _magnitudes(4, 3, 127)),
        "float8_e5m2": ("fp8_e5m2", _magnitudes(5, 2, 124)),
        "float6_e3m2fn": ("fp6_e3m2", _magnitudes(3, 2, 32)),
        "float6_e2m3fn": ("fp6_e2m3", _magnitudes(2, 3, 32)),
        "float4_e2m1fn": ("fp4_e2m1", _magnitudes(2, 1, 8)),
        "int8": ("int8", None),
        "int4": ("int4", None),
        "int2": ("int2", None),
    }
)
GRANULARITIES = (
    "per_group(size=32)",
    "per_group(size=16)",
    "per_block(rows=32,cols=1)",
    "per_block(rows=32,cols=32)",
    "per_channel(axis=0)",
    "per_tensor",
)
SHAPES = ((7,), (1, 33), (5, 7), (2, 64), (34, 3), (2, 3, 17))


def decode(codes: torch.Tensor, fmt: str) -> torch.Tensor:
    """The values of recorded codes, bytes in an integer tensor."""
    grid = FORMATS[fmt][1]
    if grid is None:
        return torch.where(codes > 127, codes - 256, codes).to(torch.float32)
    half = len(_whole(fmt))
    magnitudes = torch.tensor(grid, dtype=torch.float32)
    return torch.where(codes >= half, -magnitudes[codes % half], magnitudes[codes % half])


def main() -> None:
    """Run every case on every tensor and write the record."""
    torch.set_num_threads(1)
    sys.path.insert(0, sys.argv[1])
    # The package's own __init__ imports layers that need torchvision: only the two modules that do the
    # arithmetic are wanted.
    package = types.ModuleType("mx")
    package.__path__ = [str(Path(sys.argv[1], "mx"))]
    sys.modules["mx"] = package
    ops, formats = importlib.import_module("mx.mx_ops"), importlib.import_module("mx.formats")

    asked = list(_trials())
    arrays: dict[str, np.ndarray] = {
        "input": np.concatenate([trial.x.float().reshape(-1).numpy() for trial in asked])
    }
    failed: dict[str, dict[str, dict[str, str]]] = {"refused": {}, "undefined": {}}
    cases = {
        f"{fmt},symmetric,{granularity},min_max,microxcaling": (fmt, granularity)
        for fmt in FORMATS
        for granularity in GRANULARITIES
    }
    for number, (form, (fmt, granularity)) in enumerate(cases.items()):
        codes, exponents = [], []
        for trial in asked:
            try:
                its_codes, its_exponents = _answer(ops, formats, trial.x, fmt, granularity)
            except (Refused, Undefined) as why:
                failed[type(why).__name__.lower()].setdefault(form, {})[trial.label] = str(why)
                continue
            codes.append(its_codes)
            exponents.append(its_exponents)
        arrays[f"codes{number}"] = np.concatenate(codes)
        arrays[f"exponents{number}"] = np.concatenate(exponents)
    about = {
        "producer": f"microsoft/microxcaling {COMMIT}: the CPU path of mx_ops, elemwise_ops and formats",
        "settings": f"torch {torch.__version__}, round=nearest, custom_cuda=False, "
        "scale_bits=8, shared_exp_method=max, mx_flush_fp32_subnorms=False",
        "command": "python -m tests.engines.record_microxcaling FOLDER",
        "cases": list(cases),
        "trials": [[trial.question, trial.label, list(trial.x.shape)] for trial in asked],
        **failed,
    }
    arrays["about"] = np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)
    RECORD.parent.mkdir(exist_ok=True)
    np.savez_compressed(RECORD, **arrays)
    elements = len(arrays["input"])
    print(f"{len(cases)} cases, {len(asked)} tensors of {elements} elements, {RECORD.stat().st_size} bytes")


def _trials() -> Iterator[Trial]:
    yield from own_trials(_tensors())
    for trial in special_trials():
        if tuple(trial.x.shape) in ((2, 32), (1, 33)) and trial.question == "special numbers":
            yield trial
    yield from half_trials(_tensors())


def _tensors() -> Iterator[tuple[str, torch.Tensor]]:
    for kind, (name, make) in enumerate(DISTRIBUTIONS.items()):
        shape = SHAPES[kind % len(SHAPES)]
        yield (
            f"{name} {'x'.join(map(str, shape))}",
            make(math.prod(shape), torch.Generator().manual_seed(5000 + kind)).reshape(shape),
        )
    yield "below_powers 8x32", _below_powers()
    yield "float32_max 2x33", torch.linspace(-1, 1, 66).reshape(2, 33) * torch.finfo(torch.float32).max


def _below_powers() -> torch.Tensor:
    """Blocks whose largest magnitude is a few float32 steps below a power of two, where a float32 logarithm
    is the next integer already.
    """
    rows = []
    for power, steps in ((3, 1), (3, 2), (8, 2), (15, 5), (15, 6), (-64, 40), (-126, 22), (100, 44)):
        top = (torch.tensor(2.0**power).view(torch.int32) - steps).view(torch.float32)
        unit = 2.0 ** (power - 1)
        # Just under halves and just under powers of two, of every binade an element format has.
        just_under = [(2.0**-k) * (1 - 2.0**-24) for k in range(16)]
        rest = torch.tensor([unit * v * s for v in just_under for s in (1, -1.5)][:31])
        rows.append(torch.cat([top.reshape(1), rest]))
    return torch.stack(rows)


def _answer(
    ops: types.ModuleType, formats: types.ModuleType, x: torch.Tensor, fmt: str, granularity: str
) -> tuple[np.ndarray, np.ndarray]:
    """Codes as bytes, and the exponent of the number that multiplies them."""
    engine_format = FORMATS[fmt][0]
    if granularity.startswith("per_group"):
        axes, block = [-1], int(granularity.removeprefix("per_group(size=").removesuffix(")"))
    elif granularity.startswith("per_block"):
        if x.ndim < 2:
            raise Refused("needs two axes")
        axes, block = ([-2] if "cols=1)" in granularity else [-2, -1]), 32
    else:
        axes, block = list(range(0 if granularity == "per_tensor" else 1, x.ndim)), 0
        if not axes:
            raise Refused("no axis to share over: the engine takes logarithms of signed values")
    specs = {
        "scale_bits": 8,
        "shared_exp_method": "max",
        "mx_flush_fp32_subnorms": False,
        "custom_cuda": False,
        "block_size": block,
    }
    x_hat = ops.quantize_mx_op(x.clone(), specs, elem_format=engine_format, axes=list(axes), round="nearest")
    if not bool(torch.isfinite(x_hat).all()):
        raise Undefined("a finite input gives inf or nan")
    x_hat = x_hat.float()
    ebits, mbits, emax, _, _ = formats._get_format_params(formats.ElemFormat.from_str(engine_format))
    blocked, shared_axes = x.clone(), [a % x.ndim for a in axes]
    if block:
        blocked, shared_axes, _, _ = ops._reshape_to_blocks(blocked, list(axes), block)
        shared_axes = [a + 1 for a in shared_axes]
    exponents = (ops._shared_exponents(blocked, axes=shared_axes) - emax).clamp(min=-127)
    of_cells = exponents.expand(blocked.shape)
    if block:
        padded = list(of_cells.shape)
        for a in sorted(shared_axes, reverse=True):
            padded[a - 1 : a + 1] = [padded[a - 1] * padded[a]]
        of_cells = of_cells.reshape(padded)[tuple(slice(0, n) for n in x.shape)]
    # An integer element is a fraction of its own: its last place is part of the scale.
    shift = mbits - 2 if ebits == 0 else 0
    scale = torch.exp2(of_cells.double() - shift)
    codes = _encode(x_hat.double() / scale, fmt)
    back = (decode(codes, fmt).double() * scale).float()
    if not torch.equal(back, x_hat):
        raise SystemExit(f"{fmt} {granularity}: codes do not give the values back")
    return codes.reshape(-1).to(torch.uint8).numpy(), (exponents.reshape(-1) - shift).to(torch.int16).numpy()


def _encode(y: torch.Tensor, fmt: str) -> torch.Tensor:
    grid = FORMATS[fmt][1]
    if grid is None:
        return y.to(torch.int64) & 0xFF
    magnitudes = torch.tensor(grid, dtype=torch.float64)
    return torch.searchsorted(magnitudes, y.abs().contiguous()) + torch.signbit(y) * len(_whole(fmt))


def _whole(fmt: str) -> range:
    """Bit codes of one sign."""
    return range(2 ** (int(fmt.removeprefix("float")[0]) - 1))


if __name__ == "__main__":
    main()
