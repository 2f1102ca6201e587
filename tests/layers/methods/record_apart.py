"""Records what packages answer that are installed apart from the tests: neural-compressor's GPTQ with dynamic
groups, AutoRound's quantizer, the low rank of PEFT's LoftQ, and HIGGS as transformers quantizes.

    python -m tests.layers.methods.record_apart

Where a package asks for a kernel of a GPU, the same product by scipy stands in its place, see `_higgs`.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests.layers.methods.record_gptq import INPUTS, OUTPUTS, layers

RECORD = Path(__file__).parents[2] / "data" / "methods_apart.npz"
PACKAGES = ("torch", "neural-compressor", "auto-round", "peft", "transformers")
#: The ranks that PEFT's decomposition is asked for, and the bits of HIGGS' grids.
RANKS, BITS = (2, 8), (2, 3, 4)


@dataclass(frozen=True)
class Dynamic:
    """How a layer is swept: the scheme and the chain here follow from the package's arguments."""

    bits: int
    symmetric: bool
    size: int
    order: str = "natural"
    block: int = 128
    damping: float = 0.01

    @property
    def scheme(self) -> str:
        mode = "symmetric" if self.symmetric else "asymmetric"
        return f"uint{self.bits},{mode},per_group(size={self.size}),min_max,gptq"

    @property
    def method(self) -> str:
        return f"gptq(groups=dynamic,order={self.order},damping={self.damping},block={self.block})"


#: One for each layer.
DYNAMIC = tuple(
    Dynamic(bits, symmetric, size, order, block, damping)
    for bits, symmetric in ((4, True), (4, False), (8, True), (8, False))
    for size, order, block, damping in (
        (32, "natural", 128, 0.01),
        (8, "natural", 16, 0.01),
        (16, "activation", 128, 0.01),
        (8, "activation", 32, 0.1),
        (16, "group_aware", 128, 0.01),
        (32, "group_aware", 32, 0.001),
    )
)


def moves(number: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the shares of a step by which AutoRound moves the weights of a layer, (outputs, inputs), and the
    factor of each group's range, (outputs, groups).
    """
    generator = torch.Generator().manual_seed(7500 + number)
    v = torch.rand(OUTPUTS, INPUTS, generator=generator) - 0.5
    factor = 0.5 + torch.rand(OUTPUTS, INPUTS // GROUP, generator=generator) / 2
    return v, factor


#: Weights in a group of AutoRound's, and rows of which its values and products of a low rank are kept.
GROUP, KEPT = 16, 8


def errors(w: torch.Tensor) -> torch.Tensor:
    """Return the error of a weight in whole eighths, which PEFT decomposes."""
    return w - (w * 8).round() / 8


def main() -> None:
    """Ask the packages about every layer and write the record."""
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    arrays: dict[str, Any] = {}
    for number, (w, x) in enumerate(layers()):
        arrays[f"sums_{number}"] = np.array([float(w.double().sum()), float(x.double().sum())])
        found = {**_dynamic(w, x, DYNAMIC[number]), **_autoround(w, number), **_low_rank(w), **_higgs(w)}
        arrays |= {f"{name}_{number}": value for name, value in found.items()}
    about = {
        "producers": {name: version(name) for name in PACKAGES},
        "command": "python -m tests.layers.methods.record_apart",
        "settings": "CPU, one thread, float32",
    }
    arrays["about"] = np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)
    np.savez_compressed(RECORD, **arrays)
    print(f"{len(DYNAMIC)} layers, {RECORD.stat().st_size} bytes")


def _dynamic(w: torch.Tensor, x: torch.Tensor, setting: Dynamic) -> dict[str, Any]:
    # neural-compressor looks whether transformers is imported already, at its own import and later.
    import transformers  # noqa: F401
    from neural_compressor.torch.algorithms.weight_only.gptq import GPTQ

    method = GPTQ(torch.nn.Linear(INPUTS, OUTPUTS, bias=False), w)
    chosen = {
        "bits": setting.bits,
        "sym": setting.symmetric,
        "dtype": "int",
        "perchannel": True,
        "mse": False,
    }
    method.quantizer.configure({**chosen, "use_double_quant": False, "double_quant_sym": False})
    method.add_batch(x, None)
    found = method.fasterquant(
        w.clone(),
        blocksize=setting.block,
        percdamp=setting.damping,
        groupsize=setting.size,
        act_order=setting.order == "activation",
        hybrid_order=setting.order == "group_aware",
    )
    return {"dynamic": found[-1].numpy()}


def _autoround(w: torch.Tensor, number: int) -> dict[str, Any]:
    from auto_round.data_type.int import quant_tensor_asym, quant_tensor_sym_gptq

    v, factor = moves(number)
    quantizer = quant_tensor_sym_gptq if number % 2 else quant_tensor_asym
    values, _, _ = quantizer(
        w,
        4,
        GROUP,
        v.reshape(-1, GROUP),
        factor.flatten(),
        factor.flatten(),
        scale_dtype=torch.float32,
    )
    return {"autoround": values[:KEPT].numpy()}


def _low_rank(w: torch.Tensor) -> dict[str, Any]:
    from peft.utils.loftq_utils import _low_rank_decomposition

    answers = {}
    for rank in RANKS:
        found = _low_rank_decomposition(errors(w), rank)
        answers[f"low_rank_{rank}"] = (found["L"] @ found["R"])[:KEPT].numpy()
    return answers


def _higgs(w: torch.Tensor) -> dict[str, Any]:
    """Return what transformers hands to its kernel of matrix products, codes and scales, and its grids.

    The Hadamard transform of a GPU is scipy's matrix here.
    """
    from scipy.linalg import hadamard
    from transformers.integrations import higgs

    def handed(codes: torch.Tensor, scales: torch.Tensor, grid: torch.Tensor, **_: Any) -> Any:
        kept.append((codes, scales, grid))
        return codes, scales, grid, torch.zeros(1), None

    matrix = torch.from_numpy(hadamard(INPUTS)).float()
    kept: list[Any] = []
    higgs.hadamard_transform = lambda values, scale: values @ matrix * scale
    higgs.prepare_data_transposed = handed
    answers = {}
    for bits in BITS:
        higgs.quantize_with_higgs(w, bits, 1, INPUTS, INPUTS)
        codes, scales, grid = kept[-1]
        answers[f"higgs_codes_{bits}"] = codes.numpy()
        answers[f"higgs_scales_{bits}"] = scales.numpy()
        answers[f"higgs_grid_{bits}"] = grid.numpy()
    return answers


if __name__ == "__main__":
    main()
