"""The short text form of chosen values: `per_group(size=32)`, `given(scale=3.5,zero_point=-70)`.

One form serves links, cache keys and file names, so it uses only `[A-Za-z0-9._(),=+-]`.
A value is a frozen dataclass with a class-level `id`; fields at their default are left out. Floats are
written by shortest repr and so come back bit-exactly.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Hashable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, cast

from quantviz.errors import QuantVizError
from quantviz.public_calls import field_types, plain_type

#: Each digit can be read in one way only: else a long one that ends in a letter is tried in all of them.
_FLOAT = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?", re.ASCII)
_FORM = re.compile(r"([a-z][a-z0-9_]*)(?:\((.*)\))?", re.ASCII)


def split_outside_parentheses(form: str, separator: str = ",") -> list[str]:
    """Split at each `separator` that is not inside parentheses.

    >>> split_outside_parentheses("int4,per_group(size=4,axis=1)")
    ['int4', 'per_group(size=4,axis=1)']
    """
    parts = []
    depth = 0
    start = 0
    for at, character in enumerate(form):
        depth += (character == "(") - (character == ")")
        if character == separator and depth == 0:
            parts.append(form[start:at])
            start = at + 1
    return [*parts, form[start:]]


def read_head(form: str) -> tuple[str, dict[str, str]]:
    """Return the id and the raw fields of a form.

    >>> read_head("per_group(size=4,axis=1)")
    ('per_group', {'size': '4', 'axis': '1'})
    """
    match = _FORM.fullmatch(form)
    if not match:
        raise QuantVizError("text_form_unreadable", got=form)
    return match[1], raw_fields(match[2] or "", form)


def raw_fields(between: str, form: str) -> dict[str, str]:
    """Return the raw fields between the parentheses of a form.

    >>> raw_fields("size=4,axis=1", "per_group(size=4,axis=1)")
    {'size': '4', 'axis': '1'}
    """
    fields: dict[str, str] = {}
    for part in split_outside_parentheses(between) if between else ():
        name, equals, value = part.partition("=")
        if not equals or name in fields:
            raise QuantVizError("text_form_unreadable", got=form)
        fields[name] = value
    return fields


def write_value(value: object) -> str:
    """Return one field's value as text.

    >>> write_value(0.1), write_value(-70), write_value(True), write_value(None)
    ('0.1', '-70', 'true', 'none')
    """
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, int | float) else str(value)


def read_value(raw: str, kind: Any) -> Any:
    """Return the value of `raw` as `kind`, the field's annotation; `QuantVizError` if it is not one.

    >>> read_value("1e-08", float)
    1e-08
    """
    options = getattr(kind, "__args__", (kind,))
    for option in options:
        if option is type(None) and raw == "none":
            return None
        if option is bool and raw in ("true", "false"):
            return raw == "true"
        if (
            option is str
            and re.fullmatch(r"[a-z][a-z0-9_]*", raw, re.ASCII)
            and (raw != "none" or type(None) not in options)
        ):
            return raw
        if option is int and re.fullmatch(r"[+-]?\d{1,18}", raw, re.ASCII):
            return int(raw)
        if option is float and _FLOAT.fullmatch(raw) and math.isfinite(float(raw)):
            return float(raw)
    if int in options and re.fullmatch(r"[+-]?\d{19,}", raw, re.ASCII):
        raise QuantVizError("text_form_too_long", got=raw, largest=10**18 - 1)
    raise QuantVizError(
        "text_form_bad_value",
        got=raw,
        wanted=" / ".join(getattr(option, "__name__", str(option)) for option in options),
    )


def write(value: Any, base: Any = None) -> str:
    """Return `value` as `id(field=value,...)`, with only the fields that differ from `base` or the defaults.

    >>> from quantviz.schemes.granularity import PerGroup
    >>> write(PerGroup(32)), write(PerGroup(32, axis=0))
    ('per_group(size=32)', 'per_group(size=32,axis=0)')
    """
    parts = []
    for field in dataclasses.fields(value):
        here = getattr(value, field.name)
        usual = getattr(base, field.name) if base is not None else field.default
        if field.name != "id" and here != usual:
            parts.append(f"{field.name}={write_value(here)}")
    return f"{value.id}({','.join(parts)})" if parts else str(value.id)


def read(form: str, registry: Mapping[str, type[Any]], unknown: str) -> Any:
    """Return the value written as `form`: a class of `registry`, its fields read by their annotations.

    `unknown` is the error key used for an id the registry does not have.

    >>> from quantviz.schemes.granularity import GRANULARITIES
    >>> read("per_group(size=32)", GRANULARITIES, "unknown_granularity")
    PerGroup(size=32, axis=-1)
    """
    name, raw = read_head(form)
    if name not in registry:
        raise QuantVizError(unknown, got=name, known=", ".join(registry))
    values = read_fields(registry[name], raw, form)
    required = {f.name for f in dataclasses.fields(registry[name]) if f.default is dataclasses.MISSING}
    if not required <= values.keys():
        raise QuantVizError(
            "text_form_missing_field", got=form, missing=", ".join(sorted(required - values.keys()))
        )
    return registry[name](**values)


@cache
def _fields_of(kind: Hashable) -> Mapping[str, Any]:
    kinds = {name: plain_type(kind_of_field) for name, kind_of_field in field_types(kind).items()}
    fields = dataclasses.fields(cast("type[Any]", kind))
    return MappingProxyType({field.name: kinds[field.name] for field in fields if field.name != "id"})


def read_fields(kind: type[Any], raw: Mapping[str, str], form: str) -> dict[str, Any]:
    hints = _fields_of(cast(Hashable, kind))
    for name in raw:
        if name not in hints:
            raise QuantVizError(
                "text_form_unknown_field", got=form, field=name, known=", ".join(hints) or "-"
            )
    return {name: read_value(value, hints[name]) for name, value in raw.items()}
