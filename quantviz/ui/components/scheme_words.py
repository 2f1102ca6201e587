"""Schemes, conventions and their fields in words, in the session's language."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any, cast

from quantviz.schemes.calibration import Calibration
from quantviz.schemes.conventions import CONVENTION_GROUPS, CONVENTIONS, Convention
from quantviz.schemes.formats import FORMATS, entry_of
from quantviz.schemes.granularity import Flat, Granularity, PerChannel, PerGroup
from quantviz.schemes.level_count import level_count, tooth_count
from quantviz.schemes.names import contains
from quantviz.schemes.scheme import Scheme
from quantviz.sources import Source
from quantviz.text import catalogue, text
from quantviz.ui.shell.words import language, number, remembered, say, say_axis


def scheme_words(scheme: Scheme, source: Source) -> str:
    """Return a scheme in one line for people, as it is on the tensor of `source`."""
    names = (part_words(scheme, field, source) for field in ("format", "mode", "granularity", "calibration"))
    return " · ".join([*names, *_otherwise(scheme.chosen)])


def part_words(scheme: Scheme, field: str, source: Source) -> str:
    """Return one field of a scheme for people, as it is on the tensor of `source`.

    >>> from quantviz.sources import Normal
    >>> part_words(Scheme("int4", granularity=PerChannel(-1)), "granularity", Normal())
    'one scale for each column'
    """
    if field == "format":
        return format_name(scheme.format)
    if field == "mode":
        return say(f"modes.{scheme.mode}.name")
    if field == "granularity":
        return granularity_words(scheme.granularity, source)
    return (
        calibration_words(scheme.calibration) if field == "calibration" else convention_words(scheme.chosen)
    )


def levels_of(scheme: Scheme, language: str) -> str:
    """Return the number of levels that occur, and of the teeth that are drawn where some never do."""
    levels, teeth = f"{level_count(scheme):,}", f"{tooth_count(scheme):,}"
    return levels if levels == teeth else text("home.of_levels", language, levels=levels, teeth=teeth)


def format_name(format_id: str) -> str:
    """Return a number format's name."""
    return say(f"formats.{entry_of(format_id)}.name")


def granularity_words(granularity: Granularity, source: Source) -> str:
    """Return the elements of the tensor of `source` that share one scale, in words."""
    fields = {f.name: getattr(granularity, f.name) for f in dataclasses.fields(granularity)}  # type: ignore[arg-type]
    key = granularity.id
    if isinstance(granularity, PerChannel):
        fields["each"] = say_axis(source, granularity.axis, "each")
    elif isinstance(granularity, PerGroup) and granularity.axis % len(source.shape) < len(source.shape) - 1:
        # Along the last axis, where values lie side by side, goes without saying.
        fields["along"] = say_axis(source, granularity.axis % len(source.shape), "along")
        key = f"{key}_along"
    elif isinstance(granularity, Flat) and granularity.strided:
        key = f"{key}_strided"
    return say(f"scheme_line.{key}", **fields)


def calibration_words(calibration: Calibration) -> str:
    """Return a calibration in one line.

    The line names the numbers that were set.
    """
    return say(
        f"calibrations.{calibration.id}.line",
        **{
            f.name: number(getattr(calibration, f.name), 6)
            for f in dataclasses.fields(cast(Any, calibration))
        },
    )


def convention_name(convention: Convention) -> str:
    """Return the name of the engine whose arithmetic it is."""
    return say(f"conventions.{convention.id}.name")


@remembered
def convention_options() -> dict[str, str]:
    """Return all conventions in their groups, as lists of engines show them: the name, others people search
    it by, its purpose.

    >>> convention_options()["gguf_k"]
    'GGUF K-quants (llama.cpp, Ollama) · LLM weights'
    """
    return {name: _option(CONVENTIONS[name]) for group in CONVENTION_GROUPS.values() for name in group}


def _option(convention: Convention) -> str:
    words = {"name": convention_name(convention), "purpose": say(f"purposes.{convention.purpose}")}
    if also := _also(convention, language()):
        return say("arithmetic.option", also=also, **words)
    return say("arithmetic.option_plain", **words)


def engines_found(convention_ids: Iterable[str], typed: str) -> list[str]:
    """Return the conventions whose option in lists contains the typed text.

    >>> engines_found(CONVENTIONS, "llama cpp")[:2], engines_found(CONVENTIONS, "AIMET / QNN")
    (['gguf', 'gguf_signed'], ['aimet'])
    """
    return [name for name in convention_ids if contains(convention_options()[name], typed)]


def purpose_words(convention: Convention) -> str:
    """Return a sentence on the engine's purpose and its other names."""
    purpose = say(f"purposes.{convention.purpose}")
    also = _also(convention, language())
    if not also:
        return say("arithmetic.purpose", purpose=purpose)
    return say("arithmetic.purpose_also", purpose=purpose, also=also)


def _also(convention: Convention, language: str) -> str:
    """Return the names that people search a convention by, where its own does not contain them."""
    name = text(f"conventions.{convention.id}.name", language)
    others = (each for each in convention.known_as if not contains(name, each))
    return text("arithmetic.also_between", language).join(others)


def convention_words(convention: Convention) -> str:
    """Return the name of the arithmetic's engine, and the changes to it, in words."""
    changed = [
        say("arithmetic.changed", name=field_name(name), value=value_words(name, now))
        for name, (_, now) in changes(convention).items()
    ]
    name = convention_name(convention)
    return say("arithmetic.variant", name=name, changes=", ".join(changed)) if changed else name


def changes(convention: Convention) -> dict[str, tuple[object, object]]:
    """Return the fields in which a convention is not its engine's own."""
    return CONVENTIONS[convention.id].differences(convention)


def _otherwise(convention: Convention) -> Iterator[str]:
    """Yield a sentence for each difference between a convention and the notebooks."""
    if convention.id != (usual := next(iter(CONVENTIONS.values()))).id:
        yield convention_words(convention)
        return
    differences = usual.differences(convention)
    # Two of its variants have a sentence of their own.
    for name, differs, key in (
        ("zero_in_range", True, "scheme_line.zero_in_range"),
        ("zero_point_clamp", False, "scheme_line.zero_point_free"),
    ):
        if name in differences and differences[name][1] is differs:
            del differences[name]
            yield say(key)
    yield from (
        say("arithmetic.changed", name=field_name(name), value=value_words(name, now))
        for name, (_, now) in differences.items()
    )


def field_name(field: str) -> str:
    """Return a convention's field, one of `conventions.FIELDS`.

    >>> field_name("scale.format_floor")
    'Floor in that format'
    """
    return say(f"convention_fields.{field.replace('.', '_')}.name")


def field_help(field: str) -> str:
    """Explain a convention's field."""
    return say(f"convention_fields.{field.replace('.', '_')}.help")


def value_words(field: str, value: object) -> str:
    """Return the value of a convention's field.

    >>> value_words("ties", "even"), value_words("zero_in_range", True)
    ('half to even', 'yes')
    >>> value_words("scale.format", "float16"), value_words("scale.floor", 1e-9)
    ('FP16', '1e−9')
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        return number(value)
    word = str(value).lower() if value is None or isinstance(value, bool) else str(value)
    for key in (f"convention_fields.{field.replace('.', '_')}.values.{word}", f"convention_values.{word}"):
        if key in catalogue(language()):
            return say(key)
    return format_name(word) if word in FORMATS else word
