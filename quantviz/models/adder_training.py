"""Trains the adder: `python -m quantviz.models.adder_training`.

It takes about five minutes of two cores, and writes the weights beside this module. Then it counts in another
minute how many of all sums are right.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import torch
from torch.nn import functional

from quantviz.models.network import Network, logits
from quantviz.models.sums import ADDER_SIZES, DIGITS, drawn_sums, tokens_of_sums
from quantviz.models.training import first_tensors

STEPS = 3000
_BATCH = 512
_RATE = 3e-3
_SEED = 0
_TOLD = 100


def training_sums(draw: torch.Generator) -> torch.Tensor:
    """Return a batch of pairs of numbers, int64 (sums, 2), without those that are held back."""
    pairs = torch.randint(10**DIGITS, (_BATCH, 2), generator=draw)
    numbers, held_back = (each[:, 0] * 10**DIGITS + each[:, 1] for each in (pairs, drawn_sums("held_back")))
    return pairs[~torch.isin(numbers, held_back)]


def trained(network: Network, steps: int, seed: int) -> Iterator[float]:
    """Yield the loss of an answer's digit, in nats, after each step of training a network's tensors."""
    given = network.sizes.given
    draw = torch.Generator().manual_seed(seed + 1)
    optimizer = torch.optim.AdamW(network.tensors.values(), lr=_RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, _RATE, total_steps=steps)
    for _ in range(steps):
        tokens = tokens_of_sums(training_sums(draw))
        scores = logits(network, tokens[:, :-1])[:, given - 1 :]
        loss = functional.cross_entropy(scores.flatten(0, 1), tokens[:, given:].flatten())
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(network.tensors.values(), 1.0)
        optimizer.step()
        schedule.step()
        yield loss.item()


def right_of_all(network: Network) -> int:
    """Return the number of right ones of all sums: those of which each digit is the likeliest character."""
    given = network.sizes.given
    right = 0
    with torch.inference_mode():
        for left in range(10**DIGITS):
            pairs = torch.stack((torch.full((10**DIGITS,), left), torch.arange(10**DIGITS)), 1)
            tokens = tokens_of_sums(pairs)
            best = logits(network, tokens[:, :-1])[:, given - 1 :].argmax(-1)
            right += int((best == tokens[:, given:]).all(1).sum())
    return right


def main() -> None:
    from safetensors.torch import save_file

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "data" / "adder.safetensors")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--seed", type=int, default=_SEED)
    asked = parser.parse_args()
    torch.set_num_threads(2)
    network = Network(ADDER_SIZES, first_tensors(ADDER_SIZES, asked.seed))
    losses: list[float] = []
    for loss in trained(network, asked.steps, asked.seed):
        losses.append(loss)
        if len(losses) % _TOLD == 0:
            print(f"step {len(losses)}: {sum(losses[-_TOLD:]) / _TOLD:.5f} nats a digit", flush=True)
    stored = {name: each.detach().bfloat16() for name, each in network.tensors.items()}
    save_file(stored, asked.out)
    kept = Network(ADDER_SIZES, {name: each.float() for name, each in stored.items()})
    print(f"right: {right_of_all(kept)} of {10 ** (2 * DIGITS)}")


if __name__ == "__main__":
    main()
