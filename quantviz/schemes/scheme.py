"""`Scheme`: the choices that describe a quantization, and its text form."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast, get_args

from quantviz.errors import QuantVizError
from quantviz.public_calls import public_class
from quantviz.schemes import text_form
from quantviz.schemes.arithmetic import BY_WIDTH, HALVES
from quantviz.schemes.calibration import CALIBRATIONS, Calibration, External, Given, MinMax, Searched
from quantviz.schemes.choices import Mode, Nonfinite, SchemeZeroDomain
from quantviz.schemes.conventions import CONVENTIONS, Convention
from quantviz.schemes.formats import FORMATS, NumberFormat, find_format
from quantviz.schemes.granularity import GRANULARITIES, BlockLayout, Granularity, PerChannel, PerTensor, Shape
from quantviz.schemes.scale_search import SEARCHES, WEIGHTED, ScaleSearch

#: Zero point 0, or one that shifts the range.
MODES: tuple[Mode, ...] = get_args(Mode)
#: The rules for NaN and Inf in the input: an error; +Inf gets the largest code, -Inf the smallest and NaN
#: becomes 0; or they get the engine's own codes for them. Ranges and metrics leave them out.
NONFINITE: tuple[Nonfinite, ...] = get_args(Nonfinite)
#: Values of the arithmetic's fields that have no asymmetric mode.
_SYMMETRIC_ONLY = (
    ("value_order", ("multiply_absmax",)),
    ("reduce_range", ("stretched",)),
    ("scale.global_rule", ("absmax_over_range_joined", "reach_over_absmax")),
)

#: Engines with an option that spreads the range over 7 of 8 bits.
_REDUCES_RANGE = {
    "torch": "reduce_range=half",
    "torchao_int8": "reduce_range=half",
    "onnxruntime": "reduce_range=half_and_one",
}


@public_class
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
    mode: Mode = "symmetric"
    #: The elements that share one scale.
    granularity: Granularity = PerTensor()
    #: The rule for the clipping range.
    calibration: Calibration = MinMax()
    #: The arithmetic: a `Convention`, its text form, or an engine's name. Stored as a `Convention`.
    convention: str | Convention = "course"
    #: The rule for NaN and Inf, one of `NONFINITE`.
    nonfinite: Nonfinite = "refuse"

    def __post_init__(self) -> None:
        # A value that is no name of a format is one of the problems below.
        if isinstance(self.format, str) and self.format not in FORMATS:
            object.__setattr__(self, "format", find_format(self.format).id)
        if isinstance(self.convention, str):
            object.__setattr__(self, "convention", Convention.parse(self.convention, self.format))
        for problem in self.problems():
            raise problem

    def __hash__(self) -> int:
        return self._hash

    def __getstate__(self) -> dict[str, object]:
        # Hashes of texts differ from process to process.
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    @functools.cached_property
    def _hash(self) -> int:
        # Computed once: each lookup of operations asks for it.
        return hash(tuple(self.__getstate__().values()))

    @functools.cached_property
    def number_format(self) -> NumberFormat:
        """Return the element format itself."""
        return find_format(self.format)

    @functools.cached_property
    def chosen(self) -> Convention:
        """Return the convention itself, as it was chosen."""
        assert isinstance(self.convention, Convention)
        return self.convention

    @functools.cached_property
    def arithmetic(self) -> Convention:
        """Return the convention for the dtype of the input.

        >>> form = "int4,symmetric,per_tensor,min_max,torchao(input_dtype=bfloat16)"
        >>> Scheme.parse(form).arithmetic.apply_dtype
        'bfloat16'
        """
        return self.chosen.in_effect(self.format) if self.chosen.input_dtype in HALVES else self.chosen

    def on_input(self, dtype: str) -> Scheme:
        """Return the scheme with `dtype` in the convention where that changes the arithmetic, else as it is.

        >>> print(Scheme("int8", convention="torchao").on_input("bfloat16"))
        int8,symmetric,per_tensor,min_max,torchao(input_dtype=bfloat16)
        >>> print(Scheme("int8", convention="torchao").on_input("float32"))
        int8,symmetric,per_tensor,min_max,torchao
        """
        if dtype not in HALVES or self.chosen.input_dtype != "own":
            return self
        half_input = self.chosen.half_input_of(dtype, self.format)
        if half_input is None or not half_input.changes:
            return self
        return self.replace(convention=self.chosen.replace(input_dtype=dtype))

    @property
    def code_min(self) -> int:
        """Return the smallest code in use: the format's, or one above it under a narrow range.

        >>> Scheme("int8", convention=CONVENTIONS["course"].replace(narrow_range=True)).code_min
        -127
        """
        return self.range_code_min if self.arithmetic.narrow_clamp else self.number_format.code_min

    @property
    def code_max(self) -> int:
        """Return the largest code in use: the format's, or one below it under a narrow range without signs.

        >>> Scheme("uint8", convention=CONVENTIONS["coreml"]).code_max
        254
        """
        return self.range_code_max if self.arithmetic.narrow_clamp else self.number_format.code_max

    @property
    def range_code_min(self) -> int:
        """Return the code that the lower end of the range is made for: the smallest in use, or one above it.

        >>> scheme = Scheme("int8", convention="onnxruntime")
        >>> scheme.range_code_min, scheme.code_min
        (-127, -128)
        """
        fmt = self.number_format
        if self._reduced:
            return fmt.code_min // 2
        # A format with as many codes above 0 as below is narrow already: ternary. One of two codes has none
        # to spare.
        spared = fmt.code_min < -fmt.code_max or self._spares_unsigned("smallest")
        return fmt.code_min + (1 if self._narrow and spared and fmt.levels > 2 else 0)

    @property
    def range_code_max(self) -> int:
        """Return the code that the upper end of the range is made for: the largest in use, or one below it.

        >>> Scheme.parse("int8,symmetric,per_tensor,min_max,torch(reduce_range=half)").range_code_max
        63
        """
        fmt = self.number_format
        if self._reduced:
            more = self.arithmetic.reduce_range == "half_and_one" and fmt.signed and fmt.bits >= 8
            return fmt.code_max // 2 + (1 if more else 0)
        middle = self.mode == "symmetric" and self.symmetric_zero_point > 0
        of_middle = middle and self.arithmetic.unsigned_zero == "lower_middle"
        spared = of_middle or self._spares_unsigned("largest")
        return fmt.code_max - (1 if self._narrow and spared else 0)

    def _spares_unsigned(self, end: str) -> bool:
        fmt = self.number_format
        unsigned = fmt.kind == "integer" and not fmt.signed and fmt.levels > 2
        return unsigned and self.arithmetic.narrow_unsigned == end

    @property
    def _reduced(self) -> bool:
        # At most three codes have none to spare.
        fmt = self.number_format
        reduced = self.arithmetic.reduce_range in ("half", "half_and_one")
        return reduced and fmt.kind == "integer" and fmt.levels > 3

    @property
    def _narrow(self) -> bool:
        # One code is left out, so that there are as many on each side of 0.
        convention = self.arithmetic
        from_bits = convention.narrow_symmetric_from
        return convention.narrow_range or (
            self.mode == "symmetric" and 0 < from_bits <= self.number_format.bits
        )

    @property
    def value_min(self) -> float:
        """Return the value of the smallest code in use, in units of the scale."""
        return self.code_min if self.number_format.kind == "integer" else self.number_format.value_min

    @property
    def value_max(self) -> float:
        """Return the value of the largest code in use, in units of the scale."""
        return self.code_max if self.number_format.kind == "integer" else self.number_format.value_max

    @property
    def range_value_min(self) -> float:
        """Return the value, before any scale, of the code that the range's lower end is made for."""
        fmt = self.number_format
        return self.range_code_min if fmt.kind == "integer" else fmt.value_min

    @property
    def range_value_max(self) -> float:
        """Return the value, before any scale, of the code that the range's upper end is made for."""
        fmt = self.number_format
        return self.range_code_max if fmt.kind == "integer" else fmt.value_max

    @property
    def symmetric_zero_point(self) -> int:
        """Return the zero point of symmetric mode: 0, or the middle code where unsigned codes have one."""
        fmt = self.number_format
        rule = self.arithmetic.unsigned_zero
        if rule in ("none", "lower_end") or fmt.kind != "integer" or fmt.signed:
            return 0
        if rule == "lower_middle":
            return fmt.code_max // 2
        if self._reduced and self.arithmetic.reduce_range == "half_and_one":
            return (self.range_code_max + 1) // 2
        return (fmt.code_max + (1 if rule == "middle" or fmt.bits in (8, 16) else 0)) // 2

    @property
    def signed_min(self) -> float:
        """Return the code that the range's lower end is made for, counted from the zero point."""
        return self.range_value_min - self.symmetric_zero_point

    @property
    def signed_max(self) -> float:
        """Return the largest code counted from the zero point."""
        return self.range_value_max - self.symmetric_zero_point

    @property
    def signed_scale(self) -> bool:
        """Whether the convention gives some blocks a negative scale.

        >>> Scheme.parse("uint4,asymmetric,per_group(size=32),min_max,mlx").signed_scale
        True
        """
        spec = self.arithmetic.scale
        if self.mode == "asymmetric":
            return spec.asymmetric_rule == "end_on_code"
        return self.search is not None or spec.rule in (
            "extreme_over_code_min",
            "larger_end_over_code_min",
            "farther_end_negated",
        )

    @property
    def shifted(self) -> bool:
        """Whether there is a zero point other than 0."""
        return self.zero_point_follows or self.symmetric_zero_point != 0

    @property
    def zero_point_follows(self) -> bool:
        """Whether the zero point follows from the range: in asymmetric mode, or for a range on one side of 0.

        >>> Scheme("int8").zero_point_follows, Scheme("int8", convention="torch_qat").zero_point_follows
        (False, True)
        """
        one_sided = self.number_format.kind == "integer" and self.arithmetic.one_sided != "symmetric"
        return self.mode == "asymmetric" or one_sided or self.from_lower_end

    @property
    def from_lower_end(self) -> bool:
        """Return whether symmetric mode counts codes from the lower end of its range."""
        fmt = self.number_format
        unsigned = fmt.kind == "integer" and not fmt.signed
        return self.mode == "symmetric" and unsigned and self.arithmetic.unsigned_zero == "lower_end"

    @property
    def steps_below(self) -> int:
        """Return the number of steps from the lower end of a symmetric range to 0, where codes are counted
        from that end.

        >>> Scheme.parse("uint8,symmetric,per_tensor,min_max,openvino_fake_quantize").steps_below
        128
        """
        return (self.range_code_max + 1) // 2 - self.range_code_min

    @property
    def zero_domain(self) -> SchemeZeroDomain:
        """Return the meaning of the zero point: "none", or the convention's `zero_domain`; in symmetric mode
        it can only be a code, unless codes are counted from the lower end of the range.

        >>> Scheme("uint8", "asymmetric", convention="hqq").zero_domain, Scheme("int4").zero_domain
        ('code_float', 'none')
        """
        if not self.shifted:
            return "none"
        is_code = self.mode == "symmetric" and not self.from_lower_end
        return "code_int" if is_code else self.arithmetic.zero_domain

    @property
    def weighs_columns(self) -> bool:
        """Whether the engine uses weights of columns with this format.

        >>> Scheme.parse("int4,symmetric,per_group(size=32),min_max,gguf_signed").weighs_columns
        True
        """
        if self.search is not None:
            return self.search.weighs_columns
        weighted = WEIGHTED.get(self.arithmetic.weighted_search or "")
        return weighted is not None and self.format in weighted

    @property
    def weighted(self) -> Scheme:
        """Return the scheme with the engine's arithmetic for scales that were searched by weights of columns.

        >>> print(Scheme.parse("int4,symmetric,per_group(size=32),min_max,gguf_signed").weighted.arithmetic)
        gguf_signed(ties=even,scale.first=inverse)
        """
        if self.search is not None or not self.weighs_columns:
            return self
        return self.replace(convention=self.arithmetic.replace(ties="even", **{"scale.first": "inverse"}))

    @property
    def leaves_out(self) -> bool:
        """Whether NaN and Inf may be in the input; ranges and metrics then leave them out."""
        return self.nonfinite != "refuse"

    @property
    def range_dtype(self) -> str:
        """Return the dtype of a block's range before any step of the arithmetic.

        A range of half precision is float32: only the steps themselves round it.
        """
        return "float64" if self.arithmetic.scale_math == "float64" else "float32"

    @functools.cached_property
    def search(self) -> ScaleSearch | None:
        """Return the engine's own search of scales of this format; none if they follow from a range.

        >>> scheme = Scheme.parse("uint4,asymmetric,per_group(size=32),searched,gguf_k")
        >>> scheme.search.run, Scheme().search
        (8, None)
        """
        return SEARCHES.get(self.arithmetic.search or "", {}).get(self.format)

    def replace(self, **changes: object) -> Scheme:
        """Return this scheme with `changes`, fields by name; raise `QuantVizError` if they do not fit."""
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]

    def with_every_value(self) -> Scheme:
        """Return this scheme with ranges from the smallest to the largest value, and without a search.

        >>> print(Scheme.parse("iq4,symmetric,per_group(size=32),searched,gguf_iq4_nl").with_every_value())
        iq4,symmetric,per_group(size=32),min_max,gguf_iq4_nl(search=none)
        """
        convention = self.chosen.replace(search=None) if self.chosen.search else self.chosen
        return self.replace(calibration=MinMax(), convention=convention)

    def problems(self, shape: Shape | None = None) -> tuple[QuantVizError, ...]:
        """Return the errors for which this scheme cannot be used, on a tensor of `shape` if given.

        The one validity rule: the constructor, the controls, the links and `quantize` all use it.

        >>> scheme = Scheme(granularity=GRANULARITIES["per_group"](size=5))
        >>> [problem.key for problem in scheme.problems((4, 6))]
        ['group_does_not_divide']
        """
        problems = () if self._is_sound else tuple(self._own_problems())
        return problems or tuple(self._shape_problems(shape) if shape is not None else ())

    @functools.cached_property
    def _is_sound(self) -> bool:
        # Computed once: the fields do not change.
        return not any(self._own_problems())

    def layout(self, shape: Shape) -> BlockLayout:
        """Return the blocks of a tensor of `shape`; raise `QuantVizError` if it does not fit."""
        return self.granularity.layout(shape, self.arithmetic.tail)

    def fitted(self, shape: Shape) -> Scheme:
        """Return this scheme if it fits `shape`, else with the nearest supported granularity that does.

        If its convention supports none, the result has the source notebooks' arithmetic. For a shape that
        cannot be quantized, such as (0, 4) or (), the scheme stays as it is.

        >>> from quantviz.schemes.granularity import PerGroup
        >>> Scheme(granularity=PerGroup(32)).fitted((4, 48)).granularity
        PerGroup(size=24, axis=-1)
        """
        if not self.problems(shape) or not 1 <= len(shape) <= 4 or 0 in shape:
            return self
        nearest = self.granularity.fitted(shape)
        size_now = getattr(self.granularity, "size", None)
        sizes = (
            ()
            if size_now is None
            else sorted(self.arithmetic.offer.sizes_of(self.format), key=lambda size: abs(size - size_now))
        )
        for granularity in (
            nearest,
            *(dataclasses.replace(self.granularity, size=size) for size in sizes),  # type: ignore[type-var]
            PerTensor(),
            PerChannel(0),
        ):
            try:
                scheme = self.replace(granularity=granularity)
            except QuantVizError:
                continue
            if not scheme.problems(shape):
                return scheme
        calibration = MinMax() if isinstance(self.calibration, Searched) else self.calibration
        return self.replace(granularity=nearest, calibration=calibration, convention="course")

    def adapted(self, convention: str | Convention, shape: Shape) -> Scheme:
        """Return this scheme under another convention, for a tensor of `shape`: the nearest supported.

        Supported choices stay; the others become the format of the nearest bits, the first mode, and the
        granularity with the most similar blocks, of the engine's usual size if this one has none. Raises
        `QuantVizError` if no supported block fits the shape.

        >>> print(Scheme("int3", granularity=PerTensor()).adapted("gguf_signed", (4, 64)))
        int4,symmetric,per_group(size=32),min_max,gguf_signed
        >>> print(Scheme("int8", "asymmetric").adapted("torchao_float8", (4, 64)))
        float8_e4m3fn,symmetric,per_tensor,min_max,torchao_float8
        """
        wanted = Convention.parse(convention) if isinstance(convention, str) else convention
        return self._nearest(wanted.offer.formats or tuple(FORMATS), shape=shape, convention=wanted)

    def with_format(self, format_id: str) -> Scheme:
        """Return this scheme with another format; a mode or range that does not fit is changed.

        >>> print(Scheme("uint8", "asymmetric").with_format("nf4"))
        nf4,symmetric,per_tensor,min_max,course
        >>> gguf = Scheme("int8", granularity=GRANULARITIES["per_group"](32), convention="gguf")
        >>> print(gguf.with_format("ternary"))
        ternary,symmetric,per_group(size=256),min_max,gguf
        """
        return self._nearest((format_id,))

    def with_mode(self, mode: str) -> Scheme:
        """Return this scheme in another mode; a range that does not fit is changed, a scale by hand is kept.

        >>> from quantviz.schemes.calibration import Given
        >>> Scheme("int8", "asymmetric", calibration=Given(3.5, -70)).with_mode("symmetric").calibration
        Given(scale=3.5, zero_point=0)
        """
        return self._nearest((self.format,), (mode,))

    def for_picture(self) -> Scheme:
        """Return this scheme with unsigned codes, for values such as a picture's.

        If its engine lacks such codes, or puts their zero point in the middle, the scheme stays as it is.

        >>> print(Scheme("int4").for_picture())
        uint4,symmetric,per_tensor,min_max,course
        """
        unsigned = self._with_sign(False)
        return unsigned if unsigned.symmetric_zero_point == 0 else self

    def for_both_signs(self) -> Scheme:
        """Return this scheme with signed codes if it cannot represent values below 0.

        >>> print(Scheme("uint4").for_both_signs())
        int4,symmetric,per_tensor,min_max,course
        """
        if self.shifted:
            return self
        return self._with_sign(True)

    def _with_sign(self, signed: bool) -> Scheme:
        current = self.number_format
        alike = (fmt for fmt in FORMATS.values() if (fmt.family, fmt.bits) == ("integer", current.bits))
        twin = next((fmt.id for fmt in alike if fmt.signed == signed), current.id)
        try:
            if current.family == "integer":
                return self.replace(format=twin)
            return self
        except QuantVizError:
            return self

    def _nearest(
        self,
        formats: tuple[str, ...],
        modes: tuple[str, ...] = (),
        shape: Shape | None = None,
        **changes: object,
    ) -> Scheme:
        """Return the nearest valid scheme; if there is none, raise the error of the nearest format."""
        convention = changes.get("convention", self.chosen)
        refused = None
        assert isinstance(convention, Convention)
        by_hand = (Given(self.calibration.scale),) if isinstance(self.calibration, Given) else ()
        anew: tuple[Calibration, ...] = (MinMax(), Searched())
        for fmt in sorted(map(find_format, formats), key=self.number_format.distance):
            # The scale of a codebook of its own is no other format's.
            tried = (self.calibration, *by_hand, *anew) if self.format in (fmt.id, *FORMATS) else anew
            for mode in modes or self._modes_like(fmt, convention):
                for calibration in tried:
                    try:
                        granularity = self._granularity_like(fmt, convention, shape)
                        return self.replace(
                            format=fmt.id,
                            mode=mode,
                            granularity=granularity,
                            calibration=calibration,
                            **changes,
                        )
                    except QuantVizError as problem:
                        refused = refused or problem
        assert refused
        raise refused

    def _granularity_like(
        self, fmt: NumberFormat, convention: Convention, shape: Shape | None
    ) -> Granularity:
        if shape is not None:
            return convention.granularity_like(self.granularity, shape, fmt.id)
        size_now = getattr(self.granularity, "size", None)
        sizes = convention.offer.sizes_of(fmt.id)
        if size_now is None or not sizes or size_now in sizes:
            return self.granularity
        return dataclasses.replace(self.granularity, size=min(sizes, key=lambda size: abs(size - size_now)))  # type: ignore[type-var]

    def _modes_like(self, fmt: NumberFormat, convention: Convention) -> list[str]:
        # A zero point comes first if the sign is lost.
        wanted = (
            "asymmetric"
            if self.number_format.signed and not fmt.signed and convention.unsigned_zero == "none"
            else self.mode
        )
        return sorted(convention.offer.modes or MODES, key=lambda mode: mode != wanted)

    def _own_problems(self) -> Iterator[QuantVizError]:
        unfit = tuple(self._unfit_parts())
        yield from unfit
        # Further checks need parts of the right types, and a convention whose values are all known.
        if any(problem.key != "convention_lacks" for problem in unfit):
            return
        fmt = find_format(self.format)
        yield from self._offer_problems(fmt)
        yield from self._mode_problems(fmt)
        yield from self._search_problems()
        yield from self.calibration.problems(fmt, self.mode, self.chosen.zero_domain)
        yield from self.granularity.problems()

    def _unfit_parts(self) -> Iterator[QuantVizError]:
        try:
            fmt = find_format(self.format)
        except QuantVizError as problem:
            yield problem
            return
        if not isinstance(self.mode, str) or self.mode not in MODES:
            yield QuantVizError("unknown_mode", got=self.mode, known=", ".join(MODES))
        if not isinstance(self.nonfinite, str) or self.nonfinite not in NONFINITE:
            yield QuantVizError("unknown_nonfinite", got=self.nonfinite, known=", ".join(NONFINITE))
        if not isinstance(self.granularity, tuple(GRANULARITIES.values())):
            allowed = ", ".join(f"qv.{kind.__name__}" for kind in GRANULARITIES.values())
            yield QuantVizError("granularity_wanted", got=self.granularity, allowed=allowed)
        if not isinstance(self.calibration, (*CALIBRATIONS.values(), External)):
            # By their ids: not every class is a public name.
            allowed = ", ".join(CALIBRATIONS)
            yield QuantVizError("calibration_wanted", got=self.calibration, allowed=allowed)
        if not isinstance(self.convention, Convention):
            yield QuantVizError("unknown_convention", got=self.convention, known="course")
            return
        of_convention = tuple(self.convention.problems())
        yield from of_convention
        if any(problem.key == "convention_bad_value" for problem in of_convention):
            return
        try:
            self.convention.in_effect(fmt.id)
        except QuantVizError as problem:
            yield problem

    def _mode_problems(self, fmt: NumberFormat) -> Iterator[QuantVizError]:
        convention = self.chosen
        if self.mode == "asymmetric":
            if fmt.kind != "integer":
                yield QuantVizError("asymmetric_needs_integers", format=self.format)
            for field, values in _SYMMETRIC_ONLY:
                if convention.get(field) in values:
                    yield self._lacks(field, "mode", "symmetric")
            return
        rule = convention.scale.rule
        no_positive = fmt.kind == "integer" and fmt.code_max < 1
        if no_positive and rule in ("absmax_over_code_max", "without_clipping"):
            yield QuantVizError("symmetric_needs_positive_code", format=self.format)
        if rule in BY_WIDTH:
            wide = [
                number_format.id
                for number_format in FORMATS.values()
                if number_format.kind == "integer" and number_format.levels > 2
            ]
            if fmt.id not in wide:
                yield self._lacks("scale.rule", "format", ", ".join(wide))

    def _lacks(self, field: str, other: str, allowed: str) -> QuantVizError:
        got = self.chosen.get(field)
        return QuantVizError("convention_lacks", field=field, got=got, other=other, allowed=allowed)

    def _shape_problems(self, shape: Shape) -> Iterator[QuantVizError]:
        if not 1 <= len(shape) <= 4:
            yield QuantVizError("input_dims", got=len(shape), shape=shape)
        elif 0 in shape:
            yield QuantVizError("input_empty", shape=shape)
        else:
            problems = tuple(self.granularity.shape_problems(shape, self.chosen.tail))
            yield from problems or self._run_problems(shape)

    def _search_problems(self) -> Iterator[QuantVizError]:
        search = self.search
        name = self.arithmetic.id
        if search is None:
            if isinstance(self.calibration, Searched) or self.arithmetic.search:
                engines = ", ".join(convention.id for convention in CONVENTIONS.values() if convention.search)
                yield QuantVizError("search_missing", convention=name, format=self.format, engines=engines)
            return
        if not isinstance(self.calibration, Searched | External):
            yield QuantVizError("search_wanted", convention=name)
        mode = "asymmetric" if search.has_minimum else "symmetric"
        if self.mode != mode:
            yield QuantVizError(
                "not_offered", convention=f"{name}, {self.format}", what="mode", got=self.mode, offered=mode
            )

    def _run_problems(self, shape: Shape) -> Iterator[QuantVizError]:
        # Whole runs of blocks share a scale of scales.
        search = self.search
        if search is None or search.run < 2:
            return
        layout = self.granularity.layout(shape)
        for axis, (blocks, size) in enumerate(zip(layout.grid_shape, layout.block_shape, strict=True)):
            if size > 1 and blocks % search.run:
                yield QuantVizError(
                    "run_does_not_divide",
                    convention=self.arithmetic.id,
                    run=search.run * size,
                    axis=axis,
                    length=blocks * size,
                    shape=shape,
                )

    def _offer_problems(self, fmt: NumberFormat) -> Iterator[QuantVizError]:
        assert isinstance(self.convention, Convention)
        offer = self.convention.offer
        name = self.convention.id
        size = getattr(self.granularity, "size", None)
        for what, value, offered in (
            ("format", fmt.id, offer.formats),
            ("mode", self.mode, offer.modes),
            ("granularity", self.granularity.id, offer.granularities),
            ("size", size, offer.sizes_of(fmt.id) if size is not None else ()),
        ):
            if offered and value not in offered:
                eight = f"{fmt.id.rstrip('0123456789')}8"
                reduced = what == "format" and fmt.bits == 7 and eight in offered
                yield QuantVizError(
                    "not_offered_reduced" if reduced and name in _REDUCES_RANGE else "not_offered",
                    convention=name,
                    what=what,
                    got=value,
                    option=_REDUCES_RANGE.get(name, ""),
                    offered=", ".join(map(str, offered)),
                )

    def __repr__(self) -> str:
        if isinstance(self.calibration, External):
            calibration = Searched() if self.search else MinMax()
            return f"{self.replace(calibration=calibration)!r}.replace(calibration=External())"
        try:
            return f"Scheme.parse({str(self)!r})"
        except QuantVizError:  # the convention was made by hand
            return (
                f"Scheme({self.format!r}, {self.mode!r}, {self.granularity!r}, {self.calibration!r}, "
                f"{self.convention!r}, {self.nonfinite!r})"
            )

    def __str__(self) -> str:
        if isinstance(self.calibration, External):
            raise QuantVizError("external_has_no_text")
        parts = [
            self.format,
            self.mode,
            text_form.write(self.granularity),
            text_form.write(self.calibration),
            str(self.convention),
        ]
        return ",".join(parts if self.nonfinite == "refuse" else [*parts, self.nonfinite])

    @classmethod
    def parse(cls, form: str) -> Scheme:
        """Return the scheme whose text form is `form`; raise `QuantVizError` for a part that cannot be read.

        >>> Scheme.parse("uint4,asymmetric,per_group(size=32),percentile(p=99.9),course").granularity
        PerGroup(size=32, axis=-1)
        """
        parts = text_form.split_outside_parentheses(form) if isinstance(form, str) else []
        if not 5 <= len(parts) <= 6:
            raise QuantVizError("scheme_form_parts", got=form, count=len(parts))
        format_id = find_format(parts[0]).id
        return cls(
            format=format_id,
            # Words that are none are refused as those of any other scheme are.
            mode=cast("Mode", parts[1]),
            granularity=text_form.read(parts[2], GRANULARITIES, "unknown_granularity"),
            calibration=text_form.read(parts[3], CALIBRATIONS, "unknown_calibration"),
            convention=Convention.parse(parts[4], format_id),
            nonfinite=cast("Nonfinite", parts[5]) if len(parts) == 6 else "refuse",
        )
