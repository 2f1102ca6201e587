"""`Scheme`: everything that is chosen about a quantization, and its text form."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

from quantviz import textform
from quantviz.calibration import CALIBRATIONS, Calibration, External, MinMax
from quantviz.conventions import Convention, find_convention
from quantviz.errors import QuantVizError
from quantviz.formats import FORMATS, NumberFormat, find_format
from quantviz.granularity import GRANULARITIES, Granularity, PerTensor, Shape

#: The modes: zero point 0, or one that shifts the range.
MODES = ("symmetric", "asymmetric")
#: What is done with NaN and Inf in the input.
NONFINITE = ("refuse",)


@dataclass(frozen=True)
class Scheme:
    """A quantization scheme: frozen, hashable, with a short text form.

    The text form is at once the form in links, the cache key and the file name.

    >>> scheme = Scheme("int4", "asymmetric", granularity=PerTensor())
    >>> print(scheme)
    int4,asymmetric,per_tensor,min_max,course
    >>> Scheme.parse(str(scheme)) == scheme
    True
    >>> Scheme("int8", "sideways")
    Traceback (most recent call last):
    ...
    quantviz.errors.QuantVizError: Unknown mode: got 'sideways'. Use one of symmetric, asymmetric.
    """

    #: Id of a number format, one of `FORMATS`.
    format: str = "int8"
    #: "symmetric" or "asymmetric".
    mode: str = "symmetric"
    #: Which elements share one scale.
    granularity: Granularity = PerTensor()
    #: How the clipping range is found.
    calibration: Calibration = MinMax()
    #: Whose arithmetic: an id of `CONVENTIONS`, or a `Convention`. Kept as a `Convention`.
    convention: str | Convention = "course"
    #: What is done with NaN and Inf.
    nonfinite: str = "refuse"

    def __post_init__(self) -> None:
        if isinstance(self.convention, str):
            object.__setattr__(self, "convention", find_convention(self.convention))
        for problem in self.problems():
            raise problem

    @property
    def number_format(self) -> NumberFormat:
        """The element format itself."""
        return FORMATS[self.format]

    @property
    def arithmetic(self) -> Convention:
        """The convention itself."""
        assert isinstance(self.convention, Convention)
        return self.convention

    @property
    def code_min(self) -> int:
        """Smallest code in use: the format's, or one above it under a narrow range.

        >>> Scheme("int8", convention=find_convention("course").replace(narrow_range=True)).code_min
        -127
        """
        fmt = self.number_format
        return fmt.code_min + (1 if self.arithmetic.narrow_range and fmt.signed else 0)

    @property
    def code_max(self) -> int:
        """Largest code in use."""
        return self.number_format.code_max

    def replace(self, **changes: object) -> Scheme:
        """The same scheme but for `changes`."""
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]

    def problems(self, shape: Shape | None = None) -> tuple[QuantVizError, ...]:
        """Why this scheme cannot be used, on a tensor of `shape` if one is named; empty when it can.

        The one validity rule: the constructor, the controls, the links and `quantize` all ask it.

        >>> [problem.key for problem in Scheme(granularity=GRANULARITIES["per_group"](size=5)).problems((4, 6))]
        ['group_does_not_divide']
        """
        return tuple(self._problems(shape))

    def fitted(self, shape: Shape) -> Scheme:
        """This scheme where it fits `shape`, else the same with the nearest granularity that does.

        >>> from quantviz.granularity import PerGroup
        >>> Scheme(granularity=PerGroup(32)).fitted((4, 48)).granularity
        PerGroup(size=24, axis=-1)
        """
        return self if not self.problems(shape) else self.replace(granularity=self.granularity.fitted(shape))

    def _problems(self, shape: Shape | None) -> Iterator[QuantVizError]:
        try:
            fmt = find_format(self.format)
        except QuantVizError as problem:
            yield problem
            return
        if self.mode not in MODES:
            yield QuantVizError("unknown_mode", got=self.mode, known=", ".join(MODES))
        if self.nonfinite not in NONFINITE:
            yield QuantVizError("unknown_nonfinite", got=self.nonfinite, known=", ".join(NONFINITE))
        for value, registry, error in (
            (self.granularity, GRANULARITIES, "unknown_granularity"),
            (self.calibration, {**CALIBRATIONS, External.id: External}, "unknown_calibration"),
        ):
            if not isinstance(value, tuple(registry.values())):
                yield QuantVizError(error, got=value, known=", ".join(registry))
                return
        if not isinstance(self.convention, Convention):
            yield QuantVizError("unknown_convention", got=self.convention, known="course")
            return
        yield from self.convention.problems()
        if self.mode == "symmetric" and fmt.code_max < 1:
            yield QuantVizError("symmetric_needs_positive_code", format=self.format)
        yield from self.calibration.problems(fmt, self.mode)
        granularity_problems = tuple(self.granularity.problems())
        yield from granularity_problems
        if shape is not None:
            if not 1 <= len(shape) <= 4:
                yield QuantVizError("input_dims", got=len(shape), shape=shape)
            elif not granularity_problems:
                yield from self.granularity.shape_problems(shape)

    def __str__(self) -> str:
        if isinstance(self.calibration, External):
            raise QuantVizError("external_has_no_text")
        parts = [self.format, self.mode, textform.write(self.granularity), textform.write(self.calibration), str(self.convention)]
        return ",".join(parts if self.nonfinite == "refuse" else [*parts, self.nonfinite])

    @classmethod
    def parse(cls, form: str) -> Scheme:
        """The scheme whose text form is `form`; `QuantVizError` says what cannot be read.

        >>> Scheme.parse("uint4,asymmetric,per_group(size=32),percentile(p=99.9),course").granularity
        PerGroup(size=32, axis=-1)
        """
        parts = textform.split_outside_parentheses(form)
        if not 5 <= len(parts) <= 6:
            raise QuantVizError("scheme_form_parts", got=form, count=len(parts))
        return cls(
            format=parts[0],
            mode=parts[1],
            granularity=textform.read(parts[2], GRANULARITIES, "unknown_granularity"),
            calibration=textform.read(parts[3], CALIBRATIONS, "unknown_calibration"),
            convention=Convention.parse(parts[4]),
            nonfinite=parts[5] if len(parts) == 6 else "refuse",
        )
