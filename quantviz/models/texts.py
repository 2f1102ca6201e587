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


def plain(text: str) -> str:
    """Return a text in the model's characters: a tab as four spaces, without those it has not.

    >>> plain("a\\tµ≈b")
    'a    b'
    """
    return "".join(each for each in text.replace("\t", "    ") if each in _NUMBERS)


def as_tokens(text: str) -> torch.Tensor:
    """Return the numbers of a text's characters, int64 (characters,).

    >>> as_tokens("\\n a").tolist()
    [0, 1, 66]
    """
    return torch.tensor([_NUMBERS[each] for each in plain(text)], dtype=torch.int64)


def as_text(tokens: torch.Tensor) -> str:
    """Return the text of some characters' numbers.

    >>> as_text(as_tokens("def f(x):"))
    'def f(x):'
    """
    return "".join(CHARACTERS[number] for number in tokens.tolist())


def written(network: Network, seed_text: str, characters: int, draw: int = 0) -> str:
    """Return the text that a network writes after a text.

    Args:
        network: The network.
        seed_text: The text before, of at least one of the model's characters.
        characters: The number of characters to write.
        draw: Draws the random numbers.

    Raises:
        QuantVizError: There is no text before, or both together exceed the model's context.
    """
    tokens = as_tokens(seed_text)
    most = network.sizes.context
    if not 0 < len(tokens) <= most - characters + 1 or characters < 1:
        raise QuantVizError("model.too_long", got=len(tokens) + characters, most=most)
    chances = _chances(characters, network.sizes.characters, draw)
    cache = Cache()
    found: list[torch.Tensor] = []
    with torch.inference_mode():
        new = tokens[None]
        for chance in chances:
            scores = logits(network, new, cache)[:, -1] / TEMPERATURE
            new = (scores + chance).argmax(-1, keepdim=True)
            found.append(new[0])
    return as_text(torch.cat(found))


def first_difference(one: str, other: str) -> int | None:
    """Return the place of the first character that differs; None where the texts are equal.

    >>> first_difference("abc", "abd"), first_difference("ab", "ab")
    (2, None)
    """
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
