"""The steps of a search of scales over a block's elements, as torch runs them on many blocks.

A search is written once, of such steps and of arithmetic. The compiler of searches
(`quantviz/compiled/searching.py`) implements the same steps, and each returns lines of code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import torch


class SearchSteps(Protocol):
    """The steps. Values of elements have one axis more, the first, than values of blocks."""

    def count(self, x: Any) -> Any:
        """Return the number of elements of a block."""

    def sums(self, *terms: Any) -> tuple[Any, ...]:
        """Return the sum of each of some terms, one element after the other."""

    def least(self, values: Any) -> Any:
        """Return the smallest value."""

    def most(self, values: Any) -> Any:
        """Return the largest value."""

    def extreme(self, values: Any) -> Any:
        """Return the first value of largest magnitude, with its sign; NaN counts as 0."""

    def level(self, x: Any, share: float) -> Any:
        """Return `share` · mean x² of each run, added up one element after the other."""

    def kept(self, values: Any) -> Any:
        """Return values of elements that several steps read."""

    def tried(
        self, numbers: Sequence[float], state: tuple[Any, ...], attempt: Callable[..., tuple[Any, ...]]
    ) -> tuple[Any, ...]:
        """Return the state of the blocks after one attempt for each number.

        `attempt` takes the number and the values of the state, and returns the new state.
        """

    def in_turn(
        self,
        rounds: int,
        values: tuple[Any, ...],
        codes: Any,
        state: tuple[Any, ...],
        move: Callable[..., tuple[Any, ...]],
    ) -> tuple[Any, ...]:
        """Return the codes and the state of the blocks after codes were moved one element after the other, in
        at most `rounds` rounds: a round without a move is the last.

        `move` takes an element's values, its code, and the state; it returns whether the code moves, the new
        code, and the new state.
        """


class ByTorch:
    def count(self, x: torch.Tensor) -> int:
        return len(x)

    def sums(self, *terms: torch.Tensor) -> tuple[torch.Tensor, ...]:
        if len(terms) > 1:
            return tuple(self.sums(torch.stack(terms, dim=1))[0])
        total = torch.zeros_like(terms[0][0])
        for term in terms[0]:
            total += term
        return (total,)

    def least(self, values: torch.Tensor) -> torch.Tensor:
        return values.amin(0)

    def most(self, values: torch.Tensor) -> torch.Tensor:
        return values.amax(0)

    def extreme(self, values: torch.Tensor) -> torch.Tensor:
        values = values.nan_to_num(0.0, torch.inf, -torch.inf)
        return values.gather(0, values.abs().argmax(0, keepdim=True))[0]

    def level(self, x: torch.Tensor, share: float) -> torch.Tensor:
        squares = (x * x).numpy()
        total = np.zeros((1, x.shape[2]), np.float32)
        for block in range(x.shape[1]):
            total = np.add.accumulate(np.concatenate((total, squares[:, block])), axis=0)[-1:]
        return share * torch.from_numpy(total[0]) / (x.shape[0] * x.shape[1])

    def kept(self, values: torch.Tensor) -> torch.Tensor:
        return values

    def tried(
        self,
        numbers: Sequence[float],
        state: tuple[torch.Tensor, ...],
        attempt: Callable[..., tuple[torch.Tensor, ...]],
    ) -> tuple[torch.Tensor, ...]:
        for number in numbers:
            state = attempt(number, *state)
        return state

    def in_turn(
        self,
        rounds: int,
        values: tuple[torch.Tensor, ...],
        codes: torch.Tensor,
        state: tuple[torch.Tensor, ...],
        move: Callable[..., tuple[torch.Tensor, ...]],
    ) -> tuple[torch.Tensor, ...]:
        codes = codes.clone()
        for _ in range(rounds):
            changed = False
            for code, *own in zip(codes, *values, strict=True):
                moves, moved, *known = move(*own, code, *state)
                if bool(moves.any()):
                    changed = True
                    code.copy_(torch.where(moves, moved, code))
                    state = tuple(map(torch.where, (moves,) * len(state), known, state))
            if not changed:
                break
        return codes, *state


BY_TORCH = ByTorch()
