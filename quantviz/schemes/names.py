"""Names as people type them: case, spaces, hyphens, underscores, dots, slashes and brackets do not count."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable

#: Ignored in names by searches; Python and JavaScript read the pattern alike.
SEPARATORS = r"[\s_\-./()\u2010-\u2015\u3001\uff08\uff09]+"

#: Longer input matches none and is not compared.
_LONGEST = 200


def folded(name: str) -> str:
    """Return a name in the form that searches compare.

    >>> folded("LLM Compressor") == folded("llm-compressor") == folded("llmcompressor")
    True
    >>> folded("llama cpp") == folded("llama.cpp"), folded("LLM int8") == folded("LLM.int8()")
    (True, True)
    """
    return re.sub(SEPARATORS, "", name).casefold()


def contains(name: str, typed: str) -> bool:
    """Return whether the typed text is part of a name.

    >>> contains("TensorRT · integer inference", "tensor rt"), contains("Core ML", "core-ml")
    (True, True)
    """
    return len(typed) <= _LONGEST and folded(typed) in folded(name)


def has_words(name: str, typed: str) -> bool:
    """Return whether the typed text is one whole word of a name, or several consecutive ones.

    >>> has_words("OpenVINO FakeQuantize", "fake quantize"), has_words("int4_g128", "int4_g12")
    (True, False)
    """
    if len(typed) > _LONGEST:
        return False
    words = list(filter(None, map(folded, re.split(r"[^\w.]|_", name))))
    spans = itertools.combinations(range(len(words) + 1), 2)
    return folded(typed) in {"".join(words[first:end]) for first, end in spans}


def begins_words(names: Iterable[str], typed: str) -> bool:
    """Return whether each typed word begins a word of some name, and one is all of it.

    >>> begins_words(["OpenVINO FakeQuantize", "NNCF"], "nncf fakequant")
    True
    >>> begins_words(["MLX mxfp4"], "MLX mx"), begins_words(["MLX mxfp4"], "mlx fp4")
    (True, False)
    >>> begins_words(["Int8WeightOnly"], "int")
    False
    """
    if len(typed) > _LONGEST:
        return False
    words = {word.casefold() for name in names for word in re.split(SEPARATORS, name)}
    wanted = [word.casefold() for word in re.split(SEPARATORS, typed) if word]
    beginning = all(any(word.startswith(each) for word in words) for each in wanted)
    return beginning and not words.isdisjoint(wanted)


def ids_named(typed: str, names: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Return the ids that have the typed text as a name; `names` are pairs of a name and its id.

    >>> ids_named("Q4-0", [("q4_0", "q4_0"), ("GGUF", "q4_0"), ("gguf", "q8_0")]), ids_named("a", [])
    (('q4_0',), ())
    """
    if len(typed) > _LONGEST:
        return ()
    wanted = folded(typed)
    return tuple(dict.fromkeys(own for name, own in names if folded(name) == wanted))
