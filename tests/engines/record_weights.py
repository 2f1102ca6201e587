"""Records what AutoAWQ, AutoGPTQ and GPTQModel compute: they need a GPU, or a compiler, to be installed, so
the repository keeps their answers.

    python -m tests.engines.record_weights FOLDER

FOLDER holds the files of their repositories at the commits of `COMMITS`, a folder each: `AutoAWQ`,
`AutoGPTQ`, `GPTQModel`. Only the functions named here are run, without what their modules import besides.
"""

from __future__ import annotations

import ast
import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import numpy as np
import torch

from tests.engines import Refused, Undefined
from tests.engines.data import DISTRIBUTIONS, OUTSIDE, Trial, half_trials, own_trials, special_trials

COMMITS: Mapping[str, str] = MappingProxyType(
    {"AutoAWQ": "88e4c76b", "AutoGPTQ": "9f7d3707", "GPTQModel": "f4c327a1"}
)
RECORD = Path(__file__).parent / "recorded" / "weights.npz"
SHAPES = ((2, 128), (3, 32), (1, 256))

#: Codes, scales and zero points of a matrix, one scale and zero point a block in row-major order.
Found = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


@dataclass(frozen=True)
class Recorded:
    """One scheme that a function is asked of."""

    package: str
    form: str
    #: Called with the tensor whose range is used, and the one that is quantized in it.
    ask: Callable[[torch.Tensor, torch.Tensor], Found]
    #: Whether these may be two.
    given: bool


def main() -> None:
    """Ask every function about every tensor and write the record."""
    torch.set_num_threads(1)
    asked = list(_trials())
    inputs = [x for trial in asked for x in (trial.x, trial.seen) if x is not None]
    arrays = {"input": np.concatenate([x.float().numpy().ravel() for x in inputs])}
    failed: dict[str, dict[str, dict[str, str]]] = {"refused": {}, "undefined": {}}
    cases = list(_cases(Path(sys.argv[1])))
    for number, case in enumerate(cases):
        found = []
        for trial in asked:
            if trial.seen is not None and not case.given:
                continue
            try:
                found.append(case.ask(trial.x if trial.seen is None else trial.seen, trial.x))
            except (Refused, Undefined) as why:
                key = f"{case.package} {case.form}"
                failed[type(why).__name__.lower()].setdefault(key, {})[trial.label] = str(why)
        for part, values in zip(("codes", "scales", "zeros"), zip(*found, strict=True), strict=True):
            joined = np.concatenate([each.float().numpy().ravel() for each in values])
            arrays[f"{part}{number}"] = joined if part == "scales" else joined.astype(np.uint8)
    about = {
        "producer": ", ".join(f"{name} {commit}" for name, commit in COMMITS.items())
        + ": pseudo_quantize_tensor and WQLinear_GEMM.from_linear; Quantizer, without mse",
        "settings": f"torch {torch.__version__}, on CPU, in float32 where no dtype is named",
        "command": "python -m tests.engines.record_weights FOLDER",
        "cases": [[case.package, case.form, case.given] for case in cases],
        "trials": [
            [trial.question, trial.label, list(trial.x.shape), trial.seen is not None] for trial in asked
        ],
        **failed,
    }
    arrays["about"] = np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)
    np.savez_compressed(RECORD, **arrays)
    print(f"{len(cases)} cases, {len(asked)} tensors, {RECORD.stat().st_size} bytes")


def _trials() -> Iterator[Trial]:
    """Yield a matrix of each distribution, in half precision too, and of each range from outside and kind of
    special values.
    """
    yield from own_trials(_matrices())
    for kind, (name, outside) in enumerate(OUTSIDE.items()):
        make = (DISTRIBUTIONS["normal"], DISTRIBUTIONS["two_decimals"], DISTRIBUTIONS["ties"])[kind % 3]
        x = make(64, torch.Generator().manual_seed(7100 + kind)).reshape(2, 32)
        yield Trial("given range", f"2x32, {name}", x, outside(x))
    for trial in special_trials():
        if tuple(trial.x.shape) in ((2, 32), (4, 64)):
            yield trial
    yield from half_trials(_matrices())


def _matrices() -> Iterator[tuple[str, torch.Tensor]]:
    for kind, (name, make) in enumerate(DISTRIBUTIONS.items()):
        shape = SHAPES[kind % len(SHAPES)]
        generator = torch.Generator().manual_seed(7000 + kind)
        yield f"{name} {'x'.join(map(str, shape))}", make(math.prod(shape), generator).reshape(shape)


def _cases(folder: Path) -> Iterator[Recorded]:
    pseudo = _function(folder / "AutoAWQ/awq/quantize/quantizer.py", "pseudo_quantize_tensor")
    for granularity, size in (("per_channel", 0), ("per_group(size=32)", 32), ("per_group(size=128)", 128)):
        for stored in (False, True):
            own = "(scale.format=float16,scale.codes_from=exact)" if stored else ""
            form = f"uint4,asymmetric,{granularity},min_max,awq{own}"
            yield Recorded("AutoAWQ", form, _awq(pseudo, size, stored=stored), given=False)
    for package, path in (
        ("AutoGPTQ", "auto_gptq/quantization/quantizer.py"),
        ("GPTQModel", "gptqmodel/quantization/quantizer.py"),
    ):
        module = _module(folder / package / path)
        for bits in (2, 3, 4, 8):
            for mode in ("symmetric", "asymmetric"):
                for granularity, size in (("per_channel", 0), ("per_group(size=32)", 32)):
                    form = f"uint{bits},{mode},{granularity},min_max,gptq"
                    yield Recorded(
                        package, form, _gptq(package, module, bits, mode == "symmetric", size), given=True
                    )


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _function(path: Path, name: str) -> Callable[..., Any]:
    """One function of a file, whose annotations are its own business."""
    (found,) = [
        each for each in ast.walk(_tree(path)) if isinstance(each, ast.FunctionDef) and each.name == name
    ]
    for argument in found.args.args:
        argument.annotation = None
    names: dict[str, Any] = {"torch": torch}
    exec(compile(ast.Module([found], []), str(path), "exec"), names)
    return names[name]  # type: ignore[no-any-return]


def _module(path: Path) -> SimpleNamespace:
    """A file's classes and functions, without what it takes from its package."""
    tree = _tree(path)
    tree.body = [
        each
        for each in tree.body
        if not (isinstance(each, ast.ImportFrom) and (each.level or each.module == "logging"))
        and not (isinstance(each, ast.Assign) and isinstance(each.value, ast.Call))
    ]
    names: dict[str, Any] = {"__name__": path.stem, "BaseQuantizeConfig": object}
    exec(compile(tree, str(path), "exec"), names)
    return SimpleNamespace(**names)


def _groups(x: torch.Tensor, size: int) -> torch.Tensor:
    size = size or x.shape[-1]
    if x.shape[-1] % size:
        raise Refused("groups must divide the last axis")
    return x.reshape(-1, size)


def _awq(
    pseudo: Callable[..., Any], size: int, *, stored: bool
) -> Callable[[torch.Tensor, torch.Tensor], Found]:
    def ask(seen: torch.Tensor, x: torch.Tensor) -> Found:
        if stored and x.dtype == torch.bfloat16:
            raise Undefined("weights are made float16 before they are packed")
        rows = _groups(x, size)
        quantizer = SimpleNamespace(group_size=rows.shape[-1], w_bit=4, zero_point=True)
        try:
            values, scales, zeros = pseudo(quantizer, x.clone())
        except AssertionError as why:
            raise Undefined("it stops at NaN, of a range beyond its dtype") from why
        if not bool(torch.isfinite(scales).all()):
            raise Undefined("infinity / infinity, of a range beyond its dtype, is cast to an integer")
        values, scales, zeros = values.reshape(rows.shape), scales.reshape(-1, 1), zeros.reshape(-1, 1)
        if stored:
            # The two lines of from_linear: scales are kept as float16, codes are made with these once more.
            scale_zeros, half = zeros * scales, scales.half()
            codes = torch.round((values + scale_zeros) / half)
            if not bool(torch.isfinite(half).all()):
                raise Undefined("a scale beyond float16 gives 0 / 0, which is cast to an integer")
            return codes, half.float(), zeros
        codes = (torch.round(rows / scales) + zeros).clamp(0, 15)
        _check(values, scales, codes, zeros)
        return codes, scales, zeros

    return ask


def _gptq(
    package: str, module: SimpleNamespace, bits: int, symmetric: bool, size: int
) -> Callable[[torch.Tensor, torch.Tensor], Found]:
    def ask(seen: torch.Tensor, x: torch.Tensor) -> Found:
        # The class GPTQ of both makes weights float32 before it asks.
        seen, x = seen.float(), x.float()
        rows = _groups(x, size)
        if package == "AutoGPTQ":
            quantizer = module.Quantizer()
            quantizer.configure(bits, perchannel=True, sym=symmetric, mse=False)
        else:
            quantizer = module.Quantizer(SimpleNamespace(bits=bits, sym=symmetric, mse=0.0))
            quantizer.configure(perchannel=True)
        quantizer.find_params(_groups(seen, size).clone(), weight=True)
        if not bool((quantizer.scale != 0).all()):
            raise Undefined("0 / 0, of a group whose scale is 0, is cast to an integer")
        if not bool(torch.isfinite(quantizer.scale).all()):
            raise Undefined("infinity / infinity, of a range beyond float32, is cast to an integer")
        if not bool(((quantizer.zero >= 0) & (quantizer.zero < 2**bits)).all()):
            raise Undefined("a zero point beyond the codes runs into its neighbours")
        if bool(torch.isnan(x).any()):
            raise Undefined("NaN is cast to an integer")
        codes = (torch.round(rows / quantizer.scale) + quantizer.zero).clamp(0, 2**bits - 1)
        _check(quantizer.quantize(rows), quantizer.scale, codes, quantizer.zero)
        return codes, quantizer.scale, quantizer.zero

    return ask


def _check(values: torch.Tensor, scales: torch.Tensor, codes: torch.Tensor, zeros: torch.Tensor) -> None:
    """The package shows values, the record has what they come from."""
    if not torch.equal(values, scales * (codes - zeros)):
        raise SystemExit("codes do not give the values back")


if __name__ == "__main__":
    main()
