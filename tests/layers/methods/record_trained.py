"""Records packages' training of roundings, and llm-compressor's scales: these need other versions of other
packages than the tests.

    python -m tests.layers.methods.record_trained

brevitas learns AdaRound's rounding, auto-round learns SignRound's. Their ends are not unique: of each layer
only the error ‖(Ŵ − W)Xᵀ‖² / ‖WXᵀ‖² is kept. llm-compressor scales the layers of `record_scaling`.
"""

from __future__ import annotations

import json
import logging
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests.layers.methods.record_gptq import INPUTS, OUTPUTS, layers
from tests.layers.methods.record_scaling import ALPHAS
from tests.layers.methods.record_scaling import GROUP as SCALED_GROUP
from tests.layers.methods.record_scaling import layers as scaled_layers

RECORD = Path(__file__).parents[2] / "data" / "methods_trained.npz"
PACKAGES = ("torch", "brevitas", "auto-round", "llmcompressor")
#: Bits of layers in turn, weights in a group of SignRound's, and the steps of both packages' usual settings.
BITS, GROUP = (4, 3, 2), 16
STEPS = {"brevitas": 1000, "auto-round": 200}


def main() -> None:
    """Ask the packages about every layer and write the record."""
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    found: dict[str, list[Any]] = {}
    for number, (w, x) in enumerate(layers()):
        bits = BITS[number % len(BITS)]
        for name, run in (("brevitas", _brevitas), ("autoround", _autoround)):
            before, after = run(w, x, bits)
            found.setdefault(name, []).append([_error(w, x, before), _error(w, x, after)])
    for w, x in scaled_layers():
        for name, value in _llmcompressor(w, x).items():
            found.setdefault(name, []).append(value)
    about = {
        "producers": {name: version(name) for name in PACKAGES},
        "command": "python -m tests.layers.methods.record_trained",
        "settings": "CPU, one thread, float32",
    }
    arrays: dict[str, Any] = {name: np.stack(values) for name, values in found.items()}
    arrays["about"] = np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)
    np.savez_compressed(RECORD, **arrays)
    print(f"{RECORD.stat().st_size} bytes")


def _error(w: torch.Tensor, x: torch.Tensor, w_hat: torch.Tensor) -> float:
    inputs, weight = x.double(), w.double()
    error = (inputs @ (w_hat.double() - weight).T).square().sum()
    return float(error / (inputs @ weight.T).square().sum())


def _brevitas(w: torch.Tensor, x: torch.Tensor, bits: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the values of rounding to nearest and of the learned rounding, by the settings of brevitas'
    example for vision models: Adam at 0.001, the regularized loss summed over outputs.
    """
    import brevitas.nn as qnn
    from brevitas.inject.enum import LearnedRoundImplType
    from brevitas.quant import Int8WeightPerChannelFloat
    from brevitas_examples.common.learned_round import learned_round_method as learned

    layer = qnn.QuantLinear(
        INPUTS, OUTPUTS, bias=False, weight_quant=Int8WeightPerChannelFloat, weight_bit_width=bits
    )
    layer.weight.data = w.clone()
    before = layer.quant_weight().value.detach()
    learned.insert_learned_round_quantizers(layer, LearnedRoundImplType.HARD_SIGMOID)
    [rounding] = learned.return_learned_round_quantizers(layer)
    losses = (
        learned.RoundRegularisationLoss(layer, max_count=STEPS["brevitas"]),
        learned.MSELoss(layer, reduction="none", dim=1),
    )
    optimizer = torch.optim.Adam([rounding.value], lr=1e-3)
    layer.train()
    outputs = x @ w.T
    for _ in range(STEPS["brevitas"]):
        optimizer.zero_grad()
        made = layer(x)
        sum(loss(made, outputs) for loss in losses).backward()
        optimizer.step()
    layer.eval()
    return before, layer.quant_weight().value.detach()


def _autoround(w: torch.Tensor, x: torch.Tensor, bits: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the values of rounding to nearest and the best of the training, which AutoRound keeps."""
    from auto_round.algorithms.quantization.sign_round.sign_sgd import SignSGD
    from auto_round.wrapper import WrapperLinear

    layer = torch.nn.Linear(INPUTS, OUTPUTS, bias=False)
    layer.weight.data = w.clone()
    chosen = {"bits": bits, "group_size": GROUP, "sym": False, "data_type": "int", "act_bits": 16}
    for name, value in {**chosen, "scale_dtype": torch.float32}.items():
        setattr(layer, name, value)
    steps = STEPS["auto-round"]
    wrapper = WrapperLinear(layer, enable_torch_compile=False, iters=steps)
    ranges = [wrapper.min_scale, wrapper.max_scale]
    optimizer = SignSGD([wrapper.value, *ranges], lr=1 / steps, weight_decay=0)
    falling = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=steps)
    outputs = x @ w.T
    values = []
    losses = []
    for _ in range(steps):
        values.append(wrapper._qdq_weight(wrapper.value, *ranges)[0].detach().clone())
        loss = torch.nn.functional.mse_loss(wrapper(x), outputs)
        losses.append(loss.item())
        (1000 * loss).backward()
        optimizer.step()
        optimizer.zero_grad()
        falling.step()
    return values[0], values[int(np.argmin(losses))]


def _llmcompressor(w: torch.Tensor, x: torch.Tensor) -> dict[str, Any]:
    """Return SmoothQuant's scales and those that AWQ's search ends at, with its error there."""
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme, disable_quantization
    from compressed_tensors.quantization.lifecycle.initialize import initialize_module_for_quantization
    from llmcompressor.modifiers.quantization.calibration import initialize_observer
    from llmcompressor.modifiers.transform.awq.base import AWQModifier
    from llmcompressor.modifiers.transform.awq.mappings import ResolvedMapping
    from llmcompressor.modifiers.transform.smoothquant.base import (
        MINIMUM_SMOOTHING_SCALE,
        SmoothQuantModifier,
    )

    layer = torch.nn.Linear(w.shape[1], len(w), bias=False).requires_grad_(False)
    layer.weight.data = w.clone()
    answers: dict[str, Any] = {}
    for alpha in ALPHAS:
        smooth = SmoothQuantModifier(smoothing_strength=alpha, mappings=[])
        scales = smooth._calculate_smoothing_scales([layer], x.amax(0) - x.amin(0))
        answers[f"smooth_{alpha}"] = scales.clamp(min=MINIMUM_SMOOTHING_SCALE).numpy()
    groups = QuantizationArgs(num_bits=4, symmetric=True, strategy="group", group_size=SCALED_GROUP)
    layer.quantization_scheme = QuantizationScheme(targets=["Linear"], weights=groups)
    initialize_module_for_quantization(layer)
    initialize_observer(layer, "weight")
    # The search rounds the weight by itself; the layer must not round it once more.
    disable_quantization(layer)
    search = AWQModifier(mappings=[], duo_scaling=True)
    search._smooth_activation_stats["before"] = [x.abs().sum(0), torch.tensor(len(x))]
    search._parent_args_cache[layer] = [{"input": x}]
    mapping = ResolvedMapping("before", torch.nn.Identity(), [layer], ["layer"], layer, "layer")
    scales = search._compute_best_scale(mapping, [x @ w.T], {layer: w.clone()})
    answers["awq"] = scales.numpy()
    answers["awq_error"] = search._error_metrics[-1]["best_error"]
    return answers


if __name__ == "__main__":
    main()
