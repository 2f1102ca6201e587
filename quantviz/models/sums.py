"""Sums of two numbers of up to three digits: as characters, and as a network answers them.

A sum stands as on paper, from the right: 12 + 345 is "210+543=7530", each number padded with zeros. The
network is given the first eight characters, and writes the likeliest digit four times: units first.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch

from quantviz.errors import QuantVizError
from quantviz.models.network import Cache, Network, Sizes, logits

#: The characters by number.
CHARACTERS = "0123456789+="
#: Digits of a number, and of an answer.
DIGITS = 3
ANSWER_DIGITS = DIGITS + 1
#: Sums that are drawn to be measured on, and those of them that make up the field.
DRAWN = 1000
FIELD = 100
ADDER_SIZES = Sizes(2, 64, 4, 256, context=11, characters=len(CHARACTERS), given=8)
#: Seeds of the sums that are never trained on, and of those for calibration.
_SEEDS = MappingProxyType({"held_back": 2, "calibration": 1})
_SUM = re.compile(r"\s*(\d{1,3})\s*\+\s*(\d{1,3})\s*")
#: The quantile of the normal distribution that leaves 2.5 % above it.
_QUANTILE = 1.959964


def drawn_sums(part: str) -> torch.Tensor:
    """Return the pairs "held_back" from training or for "calibration", int64 (sums, 2), all alike likely."""
    draw = torch.Generator().manual_seed(_SEEDS[part])
    return torch.randint(10**DIGITS, (DRAWN, 2), generator=draw)


def sums_in(text: str) -> torch.Tensor:
    """Return the pairs of numbers of a text with one sum a line, int64 (sums, 2).

    Raises:
        QuantVizError: A line is no sum of two numbers of up to three digits, or there is none.

    >>> sums_in("12+345\\n 9 + 8").tolist()
    [[12, 345], [9, 8]]
    """
    found = [(line, _SUM.fullmatch(line)) for line in text.strip().splitlines()] or [("", None)]
    for line, match in found:
        if match is None or not line.isascii():
            raise QuantVizError("model.no_sum", got=line)
    return torch.tensor([[int(each) for each in match.groups()] for _, match in found if match])


def tokens_of_sums(pairs: torch.Tensor) -> torch.Tensor:
    """Return sums with their right answers as characters' numbers, int64 (sums, 12)."""
    plus, equals = (torch.full((len(pairs), 1), CHARACTERS.index(sign)) for sign in "+=")
    left, right = (_digits(pairs[:, side], DIGITS) for side in (0, 1))
    return torch.cat((left, plus, right, equals, _digits(pairs.sum(1), ANSWER_DIGITS)), 1)


def _digits(numbers: torch.Tensor, count: int) -> torch.Tensor:
    """Return the digits of numbers from the right, int64 (numbers, digits)."""
    return numbers[:, None] // 10 ** torch.arange(count) % 10


@dataclass(frozen=True)
class Sum:
    """Two numbers, and what a network writes for their sum."""

    left: int
    right: int
    #: Its four characters as they are read, the units last.
    answer: str

    @property
    def truth(self) -> str:
        return str(self.left + self.right).zfill(ANSWER_DIGITS)

    @property
    def is_right(self) -> bool:
        return self.answer == self.truth

    @property
    def wrong(self) -> tuple[bool, ...]:
        """Return whether each character of the answer is wrong, the units last."""
        return tuple(own != right for own, right in zip(self.answer, self.truth, strict=True))

    @property
    def carries(self) -> int:
        powers = (10 ** (place + 1) for place in range(DIGITS))
        return sum(self.left % power + self.right % power >= power for power in powers)


@dataclass(frozen=True)
class Sums:
    every: tuple[Sum, ...]

    def __str__(self) -> str:
        return f"{self.right} of {len(self.every)}"

    @property
    def written(self) -> str:
        """Return the sums with their answers, one a line, as "012+345=0357"."""
        return "\n".join(f"{each.left:03}+{each.right:03}={each.answer}" for each in self.every)

    @property
    def right(self) -> int:
        return sum(each.is_right for each in self.every)

    @property
    def interval(self) -> tuple[float, float]:
        """Return bounds of the share of right ones among all sums, with 95 % confidence, if these were
        drawn.
        """
        return wilson_interval(self.right, len(self.every))

    @property
    def by_carries(self) -> Mapping[int, tuple[int, int]]:
        """Return the number of right ones, and of all, by the number of carries."""
        groups = {
            carries: [each.is_right for each in self.every if each.carries == carries]
            for carries in range(DIGITS + 1)
        }
        return MappingProxyType({carries: (sum(own), len(own)) for carries, own in groups.items()})

    def field(self, *, by_carries: bool = False) -> tuple[Sum, ...]:
        """Return the first hundred; in the order in which they were drawn, or of their carries."""
        first = self.every[:FIELD]
        return tuple(sorted(first, key=lambda each: each.carries)) if by_carries else first


def answered(network: Network, pairs: torch.Tensor) -> Sums:
    """Return sums as a network answers them, from pairs of numbers, int64 (sums, 2).

    Each character is the likeliest after those that it has written before.
    """
    cache = Cache()
    given = network.sizes.given
    new = tokens_of_sums(pairs)[:, :given]
    written = []
    with torch.inference_mode():
        for _ in range(ANSWER_DIGITS):
            new = logits(network, new, cache)[:, -1:].argmax(-1)
            written.append(new)
    answers = torch.cat(written[::-1], 1).tolist()
    lines = (
        Sum(pair[0], pair[1], "".join(CHARACTERS[each] for each in own))
        for pair, own in zip(pairs.tolist(), answers, strict=True)
    )
    return Sums(tuple(lines))


def wilson_interval(right: int, count: int) -> tuple[float, float]:
    """Return the bounds of a share of which `count` draws had `right`, with 95 % confidence: Wilson's score
    interval (Wilson 1927), which Brown, Cai and DasGupta (2001) recommend.
    """
    share, square = right / count, _QUANTILE**2
    middle = (share + square / (2 * count)) / (1 + square / count)
    half = _QUANTILE * math.sqrt(share * (1 - share) / count + square / (4 * count**2)) / (1 + square / count)
    return max(0.0, middle - half), min(1.0, middle + half)
