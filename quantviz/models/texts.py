"""Texts of the model: the characters that it reads and writes, and the text that it writes.

It writes character by character with a cache. Each place of the text has its own random numbers, one for each
character. So two networks write the same as long as their scores are alike, and the first character that
differs is due to the scores alone.
"""

from __future__ import annotations

import torch

from quantviz.errors import QuantVizError
from quantviz.models.network import Cache, Network, logits

#: The characters by number: the end of a line and printable ASCII.
CHARACTERS = "\n" + "".join(map(chr, range(32, 127)))
_NUMBERS = {character: number for number, character in enumerate(CHARACTERS)}
#: Scores are divided by this before a character is drawn: below 1 likely ones become likelier.
TEMPERATURE = 0.7
_AHEAD = 8


def plain(text: str) -> str:
    """Return a text in the model's characters: a tab as four spaces, without those it has not.

    >>> plain("a\\tµ≈b")
    'a    b'
    """
    return "".join(each for each in text.replace("\t", "    ") if each in _NUMBERS)


def as_tokens(text: str) -> torch.Tensor:
    """Return the numbers of a text's characters, int64 (characters,)."""
    return torch.tensor([_NUMBERS[each] for each in plain(text)], dtype=torch.int64)


def as_text(tokens: torch.Tensor) -> str:
    return "".join(CHARACTERS[number] for number in tokens.tolist())


def written(
    network: Network,
    seed_text: str,
    characters: int,
    draw: int = 0,
    *,
    like: tuple[Network, str] | None = None,
) -> str:
    """Return the text that a network writes after a text.

    `like` is a network that is nearly the same, and the text that it wrote. The result is the same without
    it, but takes more passes: several characters that the other one guesses are checked in one pass
    (speculative decoding: Leviathan et al. 2023).

    Raises:
        QuantVizError: There is no text before, or both together exceed the model's context.
    """
    line = as_tokens(seed_text)
    before = len(line)
    most = network.sizes.context
    if not 0 < before <= most - characters + 1 or characters < 1:
        raise QuantVizError("model.too_long", got=before + characters, most=most)
    chances = _chances(characters, network.sizes.characters, draw)
    cache = Cache()
    of_other = Cache()
    guess = line[:0] if like is None else as_tokens(like[1])
    # Guessing pays where a pass costs more than the other's.
    guesses = like is not None and bool(network.inputs or network.cached)
    with torch.inference_mode():
        while len(line) < before + characters:
            left = chances[len(line) - before :]
            line = _checked(network, cache, line, guess[: len(left) - 1], left)
            cache.keep(len(line) - 1)
            guess = line[:0]
            if guesses and like is not None:
                of_other.keep(len(line) - 1)
                ahead = chances[len(line) - before :][:_AHEAD]
                guess = _continued(like[0], of_other, line, ahead)[len(line) :]
    return as_text(line[before:])


def choices(network: Network, seed_text: str, text: str, draw: int = 0) -> str:
    """Return the characters that a network would write in the places of a text, each after all before it.

    The random numbers are those of `written`.
    """
    line = as_tokens(seed_text + text)
    chances = _chances(len(text), network.sizes.characters, draw)
    with torch.inference_mode():
        scores = logits(network, line[None, :-1])[0, -len(text) :]
    return as_text((scores / TEMPERATURE + chances).argmax(-1))


def _checked(
    network: Network, cache: Cache, line: torch.Tensor, guess: torch.Tensor, chances: torch.Tensor
) -> torch.Tensor:
    """Return a text and the characters that a network writes next: those guessed, up to the first that is
    wrong, and one more. The cache has all of the text but its last characters.
    """
    scores = logits(network, torch.cat((line, guess))[None, cache.tokens :], cache)[0, -1 - len(guess) :]
    drawn = (scores / TEMPERATURE + chances[: len(scores)]).argmax(-1)
    right = int((drawn[:-1] == guess).long().cumprod(0).sum())
    return torch.cat((line, drawn[: right + 1]))


def _continued(network: Network, cache: Cache, line: torch.Tensor, chances: torch.Tensor) -> torch.Tensor:
    """Return a text with as many characters more as there are random numbers, one pass for each."""
    for chance in chances:
        line = _checked(network, cache, line, line[:0], chance[None])
    return line


def first_difference(one: str, other: str) -> int | None:
    """Return the place of the first character that differs; None where the texts are equal."""
    for at, (a, b) in enumerate(zip(one, other, strict=True)):
        if a != b:
            return at
    return None


def _chances(places: int, characters: int, draw: int) -> torch.Tensor:
    """Return Gumbel's random numbers: the largest sum with the scores is a draw by their softmax.

    float32 (places, characters).
    """
    uniform = torch.rand(
        places, characters, generator=torch.Generator().manual_seed(draw), dtype=torch.float64
    )
    return -(-uniform.log()).log().to(torch.float32)
