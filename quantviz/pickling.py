from __future__ import annotations

import dataclasses
from types import MappingProxyType
from typing import Any, ClassVar


class Picklable:
    """Pickles a frozen dataclass with its read-only mappings, and its tensor views without the rest of their
    storage.

    Python does not pickle a `MappingProxyType`, and torch pickles a view with all of the memory behind it.
    """

    #: Cached properties that are pickled too, where they are computed.
    _computed: ClassVar[tuple[str, ...]] = ()

    def __getstate__(self) -> dict[str, Any]:
        names = [each.name for each in dataclasses.fields(self)]  # type: ignore[arg-type]
        names += [name for name in self._computed if name in vars(self)]
        return {name: _packed(getattr(self, name)) for name in names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, _unpacked(value))


@dataclasses.dataclass(frozen=True)
class _ReadOnly:
    items: dict[Any, Any]


def _packed(value: Any) -> Any:
    if isinstance(value, MappingProxyType):
        return _ReadOnly({name: _packed(each) for name, each in value.items()})
    # Recognize a tensor without importing torch: pickled schemes do not need it.
    storage = getattr(value, "untyped_storage", None)
    return value.clone() if storage and storage().nbytes() > value.numel() * value.element_size() else value


def _unpacked(value: Any) -> Any:
    if isinstance(value, _ReadOnly):
        return MappingProxyType({name: _unpacked(each) for name, each in value.items.items()})
    return value
