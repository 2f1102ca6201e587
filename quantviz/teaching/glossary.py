"""The terms that the lessons explain: each is introduced by one step, and can be touched wherever a lesson
first uses it.

Their words are in `quantviz/text`, under `glossary`; `glossary.met_by` has those that a term is met by, in
capitals or not: a lesson may use them from the step on that introduces the term. A symbol belongs to its
term.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from quantviz.text import DEFAULT_LANGUAGE, templates

#: Permanent ids, in the order of the alphabet: lessons name them in double brackets.
TERMS = tuple(templates("glossary.met_by", DEFAULT_LANGUAGE))
#: Words that must not stand in a step, as a regular expression: names of functions and formulas that no
#: lesson explains. The remarks on notebooks, which are folded, may have them.
NEVER = r"torch\.|√12|⌊|⌋|symlog|\bheld\b|notebook|[Cc]ourse 2|课程二|课程 2"


def met_before(text: str, language: str, known: Collection[str]) -> frozenset[str]:
    """Return the terms that a text in a language has words of, and that are not among the `known` ones.

    >>> met_before("The scale of a tensor", "en", ["tensor"])
    frozenset({'scale'})
    """
    met_by = templates("glossary.met_by", language).items()
    unknown = ((term, words) for term, words in met_by if term not in known)
    return frozenset(term for term, words in unknown if re.search(words, text, re.IGNORECASE))
