"""The signatures of all public names, and of the public members of their classes."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from functools import cached_property

import quantviz


def signature_lines() -> list[str]:
    """Return a line for each name of `quantviz.__all__`, and below a class one for each of its members."""
    return [line for name in sorted(quantviz.__all__) for line in _lines(name, getattr(quantviz, name))]


def _lines(name: str, value: object) -> Iterator[str]:
    if inspect.isclass(value):
        yield f"class {name}{_signature(value)}"
        yield from _members(value)
    elif inspect.isroutine(value):
        yield f"{name}{_signature(value)}"
    else:
        yield f"{name}: {type(value).__name__}"


def _members(cls: type) -> Iterator[str]:
    """Yield the public members that are ours, those of its bases too; fields are in the signature."""
    ours = [vars(base) for base in cls.__mro__ if base.__module__.startswith("quantviz")]
    fields = set(getattr(cls, "__dataclass_fields__", ()))
    for name in sorted({name for each in ours for name in each if not name.startswith("_")} - fields):
        value = inspect.getattr_static(cls, name)
        if isinstance(value, property | cached_property):
            read = value.fget if isinstance(value, property) else value.func
            yield f"  {name} -> {_signature(read).partition(' -> ')[2]}"
        elif isinstance(value, classmethod | staticmethod):
            yield f"  {type(value).__name__} {name}{_signature(value.__func__)}"
        elif inspect.isroutine(value):
            yield f"  {name}{_signature(value)}"
        else:
            yield f"  {name}: {type(value).__name__}"


def _signature(value: object) -> str:
    try:
        return re.sub(" at 0x[0-9a-f]+", "", str(inspect.signature(value)))  # type: ignore[arg-type]
    except ValueError:  # a class of the language's own, as a NamedTuple's base
        return "(…)"
