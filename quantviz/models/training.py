"""Trains the character model on the text of Python's standard library: `python -m quantviz.models.training`.

It takes about three minutes of one core, and writes the weights, and excerpts of the text to calibrate on and
to measure with, beside this module. With `--qk-norm` it gives the model that is there QK-norm, and learns
only its queries and keys again, in about a minute.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import torch
from torch.nn import functional

from quantviz.models.character_model import CHARACTER, MODEL_FILE, QK_NORM_FILE, network_of
from quantviz.models.network import Network, Sizes, logits
from quantviz.models.texts import as_text, as_tokens, plain

#: Modules that are never trained on.
HELD_BACK = ("bisect", "fractions", "heapq", "queue", "random", "shlex", "statistics", "textwrap")
#: Excerpts of the text that are shipped, each of the model's context and one character.
EXCERPTS = 16
SIZES = Sizes()
_STEPS = 280
_STEPS_QK_NORM = 100
_BATCH = 6
#: Learning rates: of the matrices of layers, by Muon, and of all else, by AdamW.
_RATE_OF_LAYERS = 0.01
_RATE = 3e-3
_WARM_UP = 20
_DECAY = 0.01
_SEED = 0
_TOLD = 20
#: Standard deviation of the values before training.
_DEVIATION = 0.05


def library_text(*, held_back: bool) -> str:
    """Return the text of the standard library's modules of one file, joined in order of their names."""
    folder = Path(sysconfig.get_paths()["stdlib"])
    files = [file for file in sorted(folder.glob("*.py")) if (file.stem in HELD_BACK) == held_back]
    return plain("".join(file.read_text(encoding="utf-8") for file in files))


def first_tensors(sizes: Sizes, seed: int) -> dict[str, torch.Tensor]:
    """Return a network's tensors before training: normal ones, smaller where layers add up."""
    draw = torch.Generator().manual_seed(seed)
    found = {}
    for name, shape in sizes.shapes().items():
        if name.endswith(".bias"):
            values = torch.zeros(shape)
        elif "norm" in name:
            values = torch.ones(shape)
        else:
            adds_up = name.endswith(("out_proj.weight", "fc2.weight"))
            deviation = _DEVIATION / math.sqrt(2 * sizes.layers) if adds_up else _DEVIATION
            values = torch.randn(shape, generator=draw) * deviation
        found[name] = values.requires_grad_()
    return found


def excerpts(tokens: torch.Tensor, count: int, length: int) -> torch.Tensor:
    """Return evenly spaced pieces of a text, (count, length)."""
    starts = torch.linspace(0, len(tokens) - length, count + 1).long()[:-1]
    return torch.stack([tokens[start : start + length] for start in starts.tolist()])


def bits_a_character(network: Network, tokens: torch.Tensor) -> float:
    """Return the mean loss of the next character in bits, over pieces of a text, (pieces, length)."""
    with torch.inference_mode():
        losses = [
            functional.cross_entropy(logits(network, part[:, :-1]).flatten(0, 1), part[:, 1:].flatten())
            for part in torch.tensor_split(tokens, list(range(EXCERPTS, len(tokens), EXCERPTS)))
        ]
    return torch.stack(losses).mean().item() / math.log(2)


def with_qk_norm(network: Network) -> dict[str, torch.Tensor]:
    """Return a network's tensors, and gains of 1 for QK-norm, of which queries and keys are to be learned."""
    found = dict(network.tensors)
    for layer in range(network.sizes.layers):
        for part in ("q", "k"):
            at = f"model.layers.{layer}.self_attn.{part}"
            found[f"{at}_norm.weight"] = torch.ones(network.sizes.width // network.sizes.heads)
            for name in (f"{at}_proj.weight", f"{at}_proj.bias", f"{at}_norm.weight"):
                found[name] = found[name].clone().requires_grad_()
    return found


def trained(network: Network, tokens: torch.Tensor, steps: int, seed: int) -> Iterator[tuple[int, float]]:
    """Yield the step and the loss in bits after each step of training on a text those tensors of a network
    that take gradients.
    """
    sizes = network.sizes
    tensors = {name: values for name, values in network.tensors.items() if values.requires_grad}
    draw = torch.Generator().manual_seed(seed + 1)
    inner = [f"{name}.weight" for name in sizes.linear_layers()[:-1] if f"{name}.weight" in tensors]
    optimizers: tuple[torch.optim.Optimizer, ...] = (
        torch.optim.Muon([tensors[name] for name in inner], lr=_RATE_OF_LAYERS, weight_decay=_DECAY),
        torch.optim.AdamW(
            [values for name, values in tensors.items() if name not in inner],
            lr=_RATE,
            betas=(0.9, 0.95),
            weight_decay=0.0,
        ),
    )
    schedules = [
        torch.optim.lr_scheduler.LambdaLR(each, lambda step: _share_of_rate(step, steps))
        for each in optimizers
    ]
    length = sizes.context + 1
    for step in range(1, steps + 1):
        starts = torch.randint(len(tokens) - length, (_BATCH,), generator=draw)
        batch = torch.stack([tokens[start : start + length] for start in starts.tolist()])
        loss = functional.cross_entropy(logits(network, batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(tensors.values(), 1.0)
        for optimizer, schedule in zip(optimizers, schedules, strict=True):
            optimizer.step()
            schedule.step()
        yield step, loss.item() / math.log(2)


def _share_of_rate(step: int, steps: int) -> float:
    """Return the share of the learning rate: a linear rise, then half a cosine down to a twentieth."""
    if step < _WARM_UP:
        return (step + 1) / _WARM_UP
    done = (step - _WARM_UP) / max(1, steps - _WARM_UP)
    return 0.05 + 0.95 * (1 + math.cos(math.pi * done)) / 2


def main() -> None:
    from safetensors.torch import save_file

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "data")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--seed", type=int, default=_SEED)
    parser.add_argument("--qk-norm", action="store_true")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    training, held_back = library_text(held_back=False), library_text(held_back=True)
    for name, words in (("trained on", training), ("held back", held_back)):
        print(f"{name}: {len(words)} characters, sha256 {hashlib.sha256(words.encode()).hexdigest()}")
    if asked.qk_norm:
        network = Network(SIZES, with_qk_norm(network_of(CHARACTER)))
    else:
        network = Network(SIZES, first_tensors(SIZES, asked.seed))
    steps = asked.steps or (_STEPS_QK_NORM if asked.qk_norm else _STEPS)
    losses: list[float] = []
    for step, loss in trained(network, as_tokens(training), steps, asked.seed):
        losses.append(loss)
        if step % _TOLD == 0:
            print(f"step {step}: {sum(losses[-_TOLD:]) / _TOLD:.3f} bits a character", flush=True)
    learned = {name: values for name, values in network.tensors.items() if values.requires_grad}
    stored = {name: values.detach().bfloat16() for name, values in learned.items()}
    kept = Network(SIZES, {**network.tensors, **{name: values.float() for name, values in stored.items()}})
    length = SIZES.context + 1
    whole = as_tokens(held_back).unfold(0, length, length)
    print(f"held back: {bits_a_character(kept, whole):.4f} bits a character")
    asked.out.mkdir(parents=True, exist_ok=True)
    save_file(stored, asked.out / (QK_NORM_FILE if asked.qk_norm else MODEL_FILE))
    for name, words in (("calibration", training), ("held_back", held_back)):
        pieces = excerpts(as_tokens(words), EXCERPTS, length)
        (asked.out / f"{name}.txt").write_text(as_text(pieces.flatten()), encoding="ascii")


if __name__ == "__main__":
    main()
