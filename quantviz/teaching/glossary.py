"""The terms that the lessons explain: each is introduced by one step, and can be touched wherever a lesson
first uses it.

Their words are in `quantviz/text`, under `glossary`.
"""

from __future__ import annotations

from functools import cache

#: Permanent ids, in the order of the alphabet: lessons name them in double brackets.
TERMS = (
    "activation",
    "asymmetric",
    "bit",
    "block",
    "calibration",
    "cell",
    "clipping",
    "code",
    "codebook",
    "convention",
    "db",
    "dequantize",
    "effective_bits",
    "error",
    "exponent",
    "fake_quantization",
    "format",
    "grid",
    "group",
    "int8",
    "level",
    "mantissa",
    "model",
    "mse",
    "notebook",
    "outlier",
    "per_channel",
    "per_group",
    "per_tensor",
    "percentile",
    "quantization",
    "quantization_noise",
    "range",
    "rmse",
    "rounding",
    "ruler",
    "scale",
    "shared_scale",
    "sqnr",
    "step",
    "subnormal",
    "symmetric",
    "tensor",
    "tie",
    "w8a32",
    "weight",
    "zero_point",
)


@cache
def known_by(lesson: str, step: int) -> frozenset[str]:
    """Return the terms that were introduced up to a step, counted from 0, and in it.

    >>> "scale" in known_by("range_to_grid", 1), "scale" in known_by("range_to_grid", 2)
    (False, True)
    """
    from quantviz.teaching.lessons import lessons
    from quantviz.teaching.lessons.model import Lesson

    found: set[str] = set()
    for name, each in lessons().items():
        steps = each.steps if isinstance(each, Lesson) else ()
        for i, own in enumerate(steps):
            found |= {term for term, introduced in own.terms if introduced}
            if (name, i) == (lesson, step):
                return frozenset(found)
    return frozenset(found)


@cache
def term_home(term: str) -> tuple[str, int] | None:
    """Return the step that introduces a term, as the id of its lesson and its number from 0; none where no
    lesson does.

    >>> term_home("scale")
    ('range_to_grid', 2)
    """
    # Lessons are made of words that name terms.
    from quantviz.teaching.lessons import lessons
    from quantviz.teaching.lessons.model import Lesson

    for name, lesson in lessons().items():
        if isinstance(lesson, Lesson):
            for i, step in enumerate(lesson.steps):
                if (term, True) in step.terms:
                    return name, i
    return None
