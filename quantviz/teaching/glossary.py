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
                if (term, True) in step.words.terms:
                    return name, i
    return None
