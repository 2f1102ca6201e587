"""Records what packages answer about small layers: scales of SmoothQuant and AWQ, AWQ's clips, and scales of
blocks that are themselves quantized.

    python -m tests.layers.methods.record_scaling

The packages take seconds to import and to set up, so the repository keeps their answers.
"""

from __future__ import annotations

import copy
import json
import warnings
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

RECORD = Path(__file__).parents[2] / "data" / "methods_scaling.npz"
#: Layers that are recorded; each has a loud channel and, every third one, a dead one.
COUNT = 24
OUTPUTS, INPUTS, TOKENS = 12, 64, 32
#: Weights in a group, and the exponents that are asked for.
GROUP = 32
ALPHAS = (0.25, 0.5, 0.75)


def layers() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield W (outputs, inputs) and X (tokens, inputs) of each layer, float32 with values of float16."""
    for number in range(COUNT):
        generator = torch.Generator().manual_seed(9000 + number)
        w = torch.randn(OUTPUTS, INPUTS, generator=generator) / 8
        if number % 2:
            w *= torch.exp(torch.randn(INPUTS, generator=generator) / 2)
        x = torch.randn(TOKENS, INPUTS, generator=generator)
        x *= torch.exp(torch.randn(INPUTS, generator=generator) * (number % 5) / 4)
        x[:, number] *= 20
        if number % 3 == 2:
            x[:, (number + 7) % INPUTS] = 0
        yield w.half().float(), x.half().float()


def blocks() -> Iterator[torch.Tensor]:
    """Yield matrices of blocks of 64, float32 with values of float16; the last two have more than 256."""
    for number in range(20):
        generator = torch.Generator().manual_seed(9500 + number)
        shape = (12 + number, 128) if number < 18 else (72, 256)
        loudness = torch.exp(torch.randn(shape[0], 1, generator=generator) * (number % 4) / 3)
        yield (torch.randn(shape, generator=generator) * loudness).half().float()


def main() -> None:
    """Ask the packages about every layer and write the record."""
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    found: dict[str, list[Any]] = {}
    for w, x in layers():
        for name, value in {**_torchao(w, x), **_modelopt(w, x)}.items():
            found.setdefault(name, []).append(np.asarray(value))
    arrays = {name: np.stack(values) for name, values in found.items()}
    arrays |= {f"w_{i}": w.half().numpy() for i, (w, _) in enumerate(layers())}
    arrays |= {f"x_{i}": x.half().numpy() for i, (_, x) in enumerate(layers())}
    for i, matrix in enumerate(blocks()):
        arrays |= {f"{name}_{i}": value for name, value in _bitsandbytes(matrix).items()}
        arrays[f"matrix_{i}"] = matrix.half().numpy()
    about = {
        "producers": {
            name: version(name) for name in ("torch", "torchao", "nvidia-modelopt", "bitsandbytes")
        },
        "command": "python -m tests.layers.methods.record_scaling",
        "settings": "CPU, one thread, float32",
    }
    arrays["about"] = np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)
    np.savez_compressed(RECORD, **arrays)
    print(f"{COUNT} layers, {RECORD.stat().st_size} bytes")


def _torchao(w: torch.Tensor, x: torch.Tensor) -> dict[str, Any]:
    from torchao.prototype.awq.core import AWQObserver
    from torchao.prototype.smoothquant.core import SmoothQuantObserver
    from torchao.quantization import IntxWeightOnlyConfig, PerGroup

    answers: dict[str, Any] = {}
    for alpha in ALPHAS:
        observer = SmoothQuantObserver(w, alpha)
        observer(x)
        answers[f"torchao_smooth_{alpha}"] = observer.calculate_qparams()[0].numpy()
    config = IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(GROUP))
    searched = AWQObserver(w, None, config)
    searched(x, x @ w.T)
    answers["torchao_awq"] = searched.calculate_qparams().numpy()
    return answers


def _modelopt(w: torch.Tensor, x: torch.Tensor) -> dict[str, Any]:
    import modelopt.torch.quantization as mtq

    def asked(config: dict[str, Any]) -> Any:
        model = torch.nn.Sequential(torch.nn.Linear(INPUTS, OUTPUTS, bias=False))
        model[0].weight.data = w.clone()
        return mtq.quantize(model, config, lambda each: each(x))[0]

    answers: dict[str, Any] = {}
    for alpha in (*ALPHAS, 1.0):
        config = copy.deepcopy(mtq.INT8_SMOOTHQUANT_CFG)
        config["algorithm"] = {"method": "smoothquant", "alpha": alpha}
        quantizer = asked(config).input_quantizer
        answers[f"modelopt_smooth_{alpha}"] = quantizer.pre_quant_scale.float().numpy()
    for method in ("awq_lite", "awq_clip"):
        config = copy.deepcopy(mtq.INT4_AWQ_CFG)
        _set_block(config, GROUP)
        config["algorithm"] = {"method": method, "debug": True}
        layer = asked(config)
        if method == "awq_lite":
            helper = layer.awq_lite
            answers["modelopt_awq_losses"] = [float(each) for each in helper.loss.values()]
            answers["modelopt_awq"] = helper.best_scale.float().numpy()
        else:
            answers["modelopt_clip"] = layer.awq_clip.best_clip_val.float().numpy().reshape(OUTPUTS, -1)
            losses = [each.float().numpy().reshape(OUTPUTS, -1) for each in layer.awq_clip.loss.values()]
            answers["modelopt_clip_losses"] = np.stack(losses)
    return answers


def _set_block(config: Any, size: int) -> None:
    """Set the size of weights' blocks in a configuration of modelopt, wherever it stands."""
    if isinstance(config, dict):
        if "block_sizes" in config and isinstance(config["block_sizes"], dict):
            config["block_sizes"] = {-1: size, "type": "static"}
        for each in config.values():
            _set_block(each, size)
    elif isinstance(config, list):
        for each in config:
            _set_block(each, size)


def _bitsandbytes(matrix: torch.Tensor) -> dict[str, Any]:
    from bitsandbytes import functional

    packed, state = functional.quantize_4bit(matrix, blocksize=64, quant_type="nf4", compress_statistics=True)
    return {
        "absmax_codes": state.absmax.numpy(),
        "absmax_mean": state.offset.numpy(),
        "absmax_scales": state.state2.absmax.numpy(),
        # Values follow from few numbers, and compress badly: of each row the first block is enough.
        "values": functional.dequantize_4bit(packed, state)[:, :64].numpy(),
    }


if __name__ == "__main__":
    main()
