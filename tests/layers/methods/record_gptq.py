"""Records what llm-compressor's GPTQ answers about small layers.

    python -m tests.layers.methods.record_gptq

llm-compressor needs other versions of packages than the tests, so it is installed apart, and the repository
keeps its answers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

RECORD = Path(__file__).parents[2] / "data" / "methods_gptq.npz"
OUTPUTS, INPUTS, TOKENS = 24, 64, 160


@dataclass(frozen=True)
class Setting:
    """How a layer is quantized: its scheme and chain here, and the package's arguments."""

    scheme: str
    method: str
    arguments: tuple[tuple[str, Any], ...]
    damping: float = 0.01
    block: int = 128


def _setting(bits: int, mode: str, size: int | None, order: str | None, **more: Any) -> Setting:
    granularity = "per_channel" if size is None else f"per_group(size={size})"
    scheme = f"int{bits},{mode},{granularity},min_max,compressed_tensors"
    fields = [f"{name}={value}" for name, value in more.items()]
    fields += [] if order is None else ["order=activation"]
    method = f"gptq({','.join([*fields, 'cleared=after'])})"
    arguments = {
        "num_bits": bits,
        "symmetric": mode == "symmetric",
        "strategy": "channel" if size is None else "group",
        "group_size": size,
        "actorder": order,
    }
    return Setting(scheme, method, tuple(arguments.items()), **more)


#: One for each layer.
SETTINGS = tuple(
    _setting(bits, mode, size, order, **more)
    for bits, mode in ((4, "symmetric"), (4, "asymmetric"), (8, "symmetric"), (8, "asymmetric"))
    for size, order, more in (
        (32, None, {}),
        (32, "static", {}),
        (16, "weight", {"block": 24}),
        (None, None, {}),
        (None, "static", {"damping": 0.1}),
        (8, None, {"damping": 0.001, "block": 16}),
    )
)


def layers() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield W (outputs, inputs) and X (tokens, inputs) of each layer, float32 with values of float16.

    Inputs are mixtures of half as many, so that they are correlated; each has a loud channel, every fourth
    layer a dead one.
    """
    for number in range(len(SETTINGS)):
        generator = torch.Generator().manual_seed(7000 + number)
        w = torch.randn(OUTPUTS, INPUTS, generator=generator) / 8
        mixed = torch.randn(TOKENS, INPUTS // 2, generator=generator)
        x = mixed @ torch.randn(INPUTS // 2, INPUTS, generator=generator) / 4
        x += torch.randn(TOKENS, INPUTS, generator=generator) / 2
        x[:, number] *= 8
        if number % 4 == 3:
            x[:, (number + 5) % INPUTS] = 0
        yield w.half().float(), x.half().float()


def main() -> None:
    """Ask the package about every layer and write the record."""
    torch.set_num_threads(1)
    arrays: dict[str, Any] = {}
    for number, ((w, x), setting) in enumerate(zip(layers(), SETTINGS, strict=True)):
        # The values themselves are drawn again; this tells whether they are the same.
        arrays[f"sums_{number}"] = np.array([float(w.double().sum()), float(x.double().sum())])
        arrays |= {f"{name}_{number}": value for name, value in _llmcompressor(w, x, setting).items()}
    about = {
        "producers": {name: version(name) for name in ("torch", "llmcompressor", "compressed-tensors")},
        "command": "python -m tests.layers.methods.record_gptq",
        "settings": "quantize_weight on a CPU, one thread, float32",
    }
    arrays["about"] = np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)
    np.savez_compressed(RECORD, **arrays)
    print(f"{len(SETTINGS)} layers, {RECORD.stat().st_size} bytes")


def _llmcompressor(w: torch.Tensor, x: torch.Tensor, setting: Setting) -> dict[str, Any]:
    from compressed_tensors.quantization import QuantizationArgs
    from compressed_tensors.quantization.utils import calculate_qparams
    from llmcompressor.modifiers.gptq.gptq_quantize import quantize_weight

    arguments = {name: value for name, value in setting.arguments if value is not None}
    wanted = QuantizationArgs(**arguments)
    groups = w.reshape(OUTPUTS, -1, arguments.get("group_size", INPUTS))
    scale, zero = calculate_qparams(groups.amin(-1), groups.amax(-1), wanted)
    hessian = 2 * x.T @ x / len(x)
    found, _, fell_back = quantize_weight(
        w.clone()[None],
        hessian[None],
        scale[None],
        zero[None],
        None,
        wanted,
        blocksize=setting.block,
        percdamp=setting.damping,
    )
    assert not fell_back.any()
    return {"scale": scale.numpy(), "zero": zero.numpy(), "found": found[0].numpy().astype(np.float32)}


if __name__ == "__main__":
    main()
