"""Conventions: one engine's arithmetic as a value, the rules between its fields, and its text form."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from quantviz.errors import QuantVizError
from quantviz.public_calls import field_types, public_class, unfit_fields
from quantviz.schemes import text_form
from quantviz.schemes.arithmetic import HALVES, PURPOSES, Arithmetic, HalfInput, ScaleSpec
from quantviz.schemes.choices import values_of
from quantviz.schemes.engines import ENGINES
from quantviz.schemes.field_needs import NEEDS, orders
from quantviz.schemes.granularity import GRANULARITIES, Granularity, Shape, nearest_granularity
from quantviz.schemes.names import begins_words, ids_named
from quantviz.text import languages, text


@public_class
@dataclass(frozen=True)
class Convention(Arithmetic):
    """An engine's arithmetic, a frozen value.

    >>> print(CONVENTIONS["course"])
    course
    >>> print(CONVENTIONS["course"].replace(scale_math="float32"))
    course(scale_math=float32)
    """

    def replace(self, **changes: object) -> Convention:
        """Return this arithmetic with `changes`, fields by name; one of `scale` as `**{"scale.floor":
        1e-08}`.

        Raises:
            QuantVizError: A field or a value is unknown; the message lists the allowed ones.
        """
        for name in sorted(changes, key=lambda name: name.startswith("scale.")):
            if name not in FIELDS:
                raise QuantVizError("convention_unknown_field", field=name, known=", ".join(FIELDS))
        nested = {
            name.removeprefix("scale."): changes.pop(name)
            for name in tuple(changes)
            if name.startswith("scale.")
        }
        if nested:
            changes["scale"] = dataclasses.replace(self.scale, **nested)  # type: ignore[arg-type]
        new = dataclasses.replace(self, **changes)  # type: ignore[arg-type]
        for problem in new.problems():
            raise problem
        return new

    def get(self, name: str) -> object:
        """Return a field by its name in `FIELDS`.

        >>> CONVENTIONS["course"].get("scale.floor_rule")
        'at_least'
        """
        if name not in FIELDS:
            raise QuantVizError("convention_unknown_field", field=name, known=", ".join(FIELDS))
        return _field_of(self, name)

    def granularity_like(self, granularity: Granularity, shape: Shape, format_id: str) -> Granularity:
        """Return `granularity` if the engine supports it with a format and it fits a tensor of `shape`, else
        the nearest supported one.

        The nearest is the one with the most similar blocks. A granularity without a size becomes blocks of
        the engine's usual size. Raises `QuantVizError` if no supported one fits.

        >>> CONVENTIONS["bitsandbytes"].granularity_like(GRANULARITIES["per_tensor"](), (4, 64), "nf4")
        Flat(size=64, strided=False)
        >>> CONVENTIONS["bitsandbytes"].granularity_like(GRANULARITIES["per_group"](128), (4, 256), "nf4")
        Flat(size=128, strided=False)
        """
        offer = self.offer
        fits = not any(granularity.shape_problems(shape, self.tail))
        if fits and offer.has_granularity(granularity, format_id):
            return granularity
        kinds = [GRANULARITIES[name] for name in offer.granularities or GRANULARITIES]
        sizes = offer.sizes_of(format_id)
        candidates = (candidate for kind in kinds for candidate in kind.candidates(shape, sizes))
        try:
            return nearest_granularity(granularity, candidates, shape, self.tail, offer.usual_size)
        except QuantVizError:
            if not sizes:
                raise
        raise QuantVizError(
            "no_offered_size_fits", convention=self.id, sizes=", ".join(map(str, sizes)), shape=shape
        )

    def half_input_of(self, dtype: str, format_id: str) -> HalfInput | None:
        """Return the engine's rule for an input of `dtype` and a format's codes; none if there is none.

        >>> CONVENTIONS["bitsandbytes"].half_input_of("float16", "nf4").changes
        (('result_dtype', 'input'),)
        """
        return next((half for half in self.half_input if half.fits(dtype, format_id)), None)

    def in_effect(self, format_id: str) -> Convention:
        """Return the arithmetic for its `input_dtype`, with the changes for that dtype in the fields.

        A field that was set by hand keeps its value.

        >>> CONVENTIONS["bitsandbytes"].replace(input_dtype="float16").in_effect("nf4").result_dtype
        'float16'
        """
        return _in_effect(self, format_id) if self.input_dtype in HALVES else self

    def problems(self) -> Iterator[QuantVizError]:
        """Yield an error for each unknown value, or else for each field that does not go with another."""
        # Most schemes check this again and again.
        if not self._is_sound:
            yield from self._wrong_fields()

    @functools.cached_property
    def _is_sound(self) -> bool:
        return not any(self._wrong_fields())

    def _wrong_fields(self) -> Iterator[QuantVizError]:
        unknown = tuple(self._unfit()) or tuple(self._unknown())
        # A field can only be checked against others if every value is known.
        yield from unknown or self._lacking()

    def _unfit(self) -> Iterator[QuantVizError]:
        for field, got, allowed in unfit_fields(self):
            yield QuantVizError("convention_bad_value", field=field, got=got, allowed=allowed)

    def _unknown(self) -> Iterator[QuantVizError]:
        for name, allowed in CHOICES.items():
            value = _field_of(self, name)
            if value not in allowed or type(value) not in {type(allowed_value) for allowed_value in allowed}:
                yield QuantVizError(
                    "convention_bad_value", field=name, got=value, allowed=", ".join(map(str, allowed))
                )
        for name in (
            "scale.floor",
            "scale.value_limit",
            "scale.widened_up_to",
            "scale.tensor_floor",
            "scale.code_max",
            "scale.without_inverse",
            "scale.format_floor",
            "scale.code_floor",
            "scale.inverse_max",
            "code_bits",
        ):
            value = _field_of(self, name)
            if not isinstance(value, float) or not 0 <= value < float("inf"):
                yield QuantVizError("convention_bad_value", field=name, got=value, allowed="≥ 0")
        for name, smallest in (
            ("scale_bits", 1),
            ("zero_bits", 0),
            ("narrow_symmetric_from", 0),
            ("seed", 0),
            ("lattice", 0),
        ):
            value = _field_of(self, name)
            # Its text form has 18 digits.
            if not isinstance(value, int) or isinstance(value, bool) or not smallest <= value < 10**18:
                yield QuantVizError(
                    "convention_bad_value", field=name, got=value, allowed=f"{smallest} … 10^18 - 1"
                )

    def _lacking(self) -> Iterator[QuantVizError]:
        for need in NEEDS:
            values = orders(self) if need.field == "order" else (_field_of(self, need.field),)
            if not any(value in need.values if need.values else value for value in values):
                continue
            others = orders(self) if need.other == "order" else (_field_of(self, need.other),)
            has = all(text_form.write_value(value) in need.allowed for value in others)
            if not has and not need.is_free(self):
                yield QuantVizError(
                    "convention_lacks",
                    field=need.field,
                    got=self.get(need.field),
                    other=need.other,
                    allowed=", ".join(need.allowed),
                )

    def differences(self, other: Convention) -> dict[str, tuple[object, object]]:
        """Return the fields in which two conventions differ, with the value of each.

        >>> CONVENTIONS["course"].differences(CONVENTIONS["course"].replace(ties="away"))
        {'ties': ('even', 'away')}
        """
        return {
            name: (_field_of(self, name), _field_of(other, name))
            for name in FIELDS
            if _field_of(self, name) != _field_of(other, name)
        }

    def __str__(self) -> str:
        if not self._is_sound:
            for problem in self._unfit():  # a tensor in place of a number cannot be compared
                raise problem
        registered = find_convention(self.id)
        if self == registered:
            return self.id
        changed = self.differences(registered)
        ordered = sorted(changed, key=lambda name: name.startswith("scale."))
        parts = ",".join(f"{name}={text_form.write_value(self.get(name))}" for name in ordered)
        if parts:
            return f"{self.id}({parts})"
        return self.id

    def __repr__(self) -> str:
        try:
            return f"Convention.parse({str(self)!r})"
        except QuantVizError:  # one that was made by hand has no text form
            return f"Convention({self.id!r}, …)"

    @classmethod
    def parse(cls, form: str, format_id: str | None = None) -> Convention:
        """Return the convention written as `form`: with its id, or a name as `find_convention` reads it.

        >>> Convention.parse("course(scale.floor=1e-08)").scale.floor
        1e-08
        """
        if not isinstance(form, str):
            raise QuantVizError("text_form_unreadable", got=form)
        head, opened, rest = form.partition("(")
        if head not in CONVENTIONS and _ids_called(form):
            # A name that has parentheses itself.
            head = form
            opened = rest = ""
        if opened and not rest.endswith(")"):
            raise QuantVizError("text_form_unreadable", got=form)
        raw = text_form.raw_fields(rest.removesuffix(")"), form)
        registered = find_convention(head, format_id)
        top_level = {key: value for key, value in raw.items() if not key.startswith("scale.")}
        nested = {key.removeprefix("scale."): value for key, value in raw.items() if key.startswith("scale.")}
        changes = text_form.read_fields(cls, top_level, form) | {
            f"scale.{k}": v for k, v in text_form.read_fields(ScaleSpec, nested, form).items()
        }
        if changes:
            return registered.replace(**changes)
        return registered


def _field_of(convention: Convention, name: str) -> object:
    if name.startswith("scale."):
        return getattr(convention.scale, name.removeprefix("scale."))
    return getattr(convention, name)


#: Fields of a convention that describe its engine and are not arithmetic.
_NO_RULES = ("id", "scale", "half_input", "offer", "purpose", "known_as")

#: Every field of the arithmetic, those of the scale as `scale.<field>`.
FIELDS: tuple[str, ...] = (
    *(f"scale.{f.name}" for f in dataclasses.fields(ScaleSpec)),
    *(f.name for f in dataclasses.fields(Convention) if f.name not in _NO_RULES),
)


def _choices() -> Iterator[tuple[str, tuple[object, ...]]]:
    # Only fields whose type names all its values.
    for name in FIELDS:
        owner = ScaleSpec if name.startswith("scale.") else Convention
        values = values_of(field_types(owner)[name.removeprefix("scale.")])
        if values is not None:
            yield name, values


CHOICES: Mapping[str, tuple[object, ...]] = MappingProxyType(dict(_choices()))

CONVENTIONS: Mapping[str, Convention] = MappingProxyType(
    {engine.id: Convention(**vars(engine)) for engine in ENGINES}
)


@functools.lru_cache(maxsize=256)
def _in_effect(convention: Convention, format_id: str) -> Convention:
    dtype = convention.input_dtype
    usual = CONVENTIONS.get(convention.id, convention)
    half_input = convention.half_input_of(dtype, format_id)
    changes = {
        name: dtype if value == "input" else value
        for name, value in (half_input.changes if half_input else ())
        if convention.get(name) == usual.get(name)
    }
    return dataclasses.replace(convention, input_dtype="own", half_input=()).replace(**changes)


#: Ids of conventions by the purpose of their engine.
CONVENTION_GROUPS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {purpose: tuple(engine.id for engine in ENGINES if engine.purpose == purpose) for purpose in PURPOSES}
)


def find_convention(convention_id: str, format_id: str | None = None) -> Convention:
    """Return the convention called `convention_id`; `QuantVizError` lists the known ones.

    It is an id, or a name as people type it: the engine's own in any language, or one that several engines
    may share. Of these the only one that offers the format `format_id` is meant.

    >>> find_convention("Core-ML linear").id, find_convention("llm compressor", "int4").id
    ('coreml', 'compressed_tensors')
    """
    if not isinstance(convention_id, str):
        raise QuantVizError("unknown_convention", got=convention_id, known=", ".join(CONVENTIONS))
    if convention_id in CONVENTIONS:
        return CONVENTIONS[convention_id]
    named = _ids_called(convention_id)
    offering = tuple(name for name in named if format_id in CONVENTIONS[name].offer.formats)
    meant = offering or named
    if len(meant) == 1:
        return CONVENTIONS[meant[0]]
    if meant:
        raise QuantVizError("convention_of_several", got=convention_id, allowed=", ".join(meant))
    partly = [
        convention.id
        for convention in CONVENTIONS.values()
        if begins_words(engine_names(convention), convention_id)
    ]
    if partly:
        raise QuantVizError("convention_in_part", got=convention_id, allowed=", ".join(partly))
    raise QuantVizError("unknown_convention", got=convention_id, known=", ".join(CONVENTIONS))


def engine_names(convention: Convention) -> tuple[str, ...]:
    """Return the names of a convention: its id, the engine's name in each language, and other names.

    >>> engine_names(CONVENTIONS["qserve"])[:2]
    ('qserve', 'QServe')
    """
    names = (text(f"conventions.{convention.id}.name", language) for language in languages())
    return (convention.id, *names, *convention.known_as)


def _ids_called(typed: str) -> tuple[str, ...]:
    # An engine's own name comes before one that several share.
    return next(filter(None, (ids_named(typed, names) for names in _names())), ())


@functools.cache
def _names() -> tuple[tuple[tuple[str, str], ...], ...]:
    return (
        tuple((engine.id, engine.id) for engine in ENGINES),
        tuple(
            (text(f"conventions.{engine.id}.name", language), engine.id)
            for language in languages()
            for engine in ENGINES
        ),
        tuple((name, engine.id) for engine in ENGINES for name in engine.known_as),
    )
