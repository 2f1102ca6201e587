"""Names as people type them: case, spaces, hyphens and underscores do not count."""

from __future__ import annotations

import re
from collections.abc import Iterable

#: What is left out of a name that is searched for, as a pattern that Python and JavaScript read alike.
SEPARATORS = r"[\s_\-\u2010-\u2015]+"


def folded(name: str) -> str:
    """Return a name as searches compare it.

    >>> folded("LLM Compressor") == folded("llm-compressor") == folded("llmcompressor")
    True
    """
    return re.sub(SEPARATORS, "", name).casefold()


def contains(name: str, typed: str) -> bool:
    """Return whether what was typed is part of a name.

    >>> contains("TensorRT · integer inference", "tensor rt"), contains("Core ML", "core-ml")
    (True, True)
    """
    return folded(typed) in folded(name)


def ids_named(typed: str, names: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Return the ids of which a name is what was typed; `names` are pairs of a name and its id.

    >>> ids_named("Q4-0", [("q4_0", "q4_0"), ("GGUF", "q4_0"), ("gguf", "q8_0")]), ids_named("a", [])
    (('q4_0',), ())
    """
    wanted = folded(typed)
    return tuple(dict.fromkeys(own for name, own in names if folded(name) == wanted))
