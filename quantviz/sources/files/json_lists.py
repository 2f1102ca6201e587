""".json: a nested list, or an object of name → nested list."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from quantviz.granularity import Shape, Window
from quantviz.sources.files.catalog import Catalog, FileData, TensorInfo, clipped
from quantviz.sources.typed import Typed

if TYPE_CHECKING:
    import torch


class _DuplicateName(Exception):
    pass


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries: dict[str, Any] = {}
    for name, value in pairs:
        if name in entries:
            raise _DuplicateName(name)
        entries[name] = value
    return entries


class JsonCatalog(Catalog):
    """The nested lists of a JSON file. Objects inside objects give dotted names; single numbers and texts are left out."""

    kind = "JSON"
    suffixes = (".json",)
    snippet = 'import json, numpy\nx = numpy.array(json.load(open({file!r}))[{name!r}])[:512]\nnumpy.save("cut_out.npy", x)'

    @classmethod
    def recognises(cls, data: FileData) -> bool:
        return bytes(data.view[:4096]).removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"[", b"{")

    def _list(self) -> Mapping[str, TensorInfo]:
        if self._data.size > self._limits.json_bytes:
            raise self._data.error("too_large", got=self._data.size, most=self._limits.json_bytes)
        try:
            content = json.loads(bytes(self._data.view), object_pairs_hook=_no_duplicates)
        except _DuplicateName as duplicate:
            raise self._data.error("duplicate_name", name=clipped(str(duplicate))) from None
        except UnicodeDecodeError:
            raise self._data.error("not_text") from None
        self._lists: dict[str, list[Any]] = {}
        for name, nested in self._nested_lists(content):
            if name in self._lists:
                raise self._data.error("duplicate_name", name=clipped(name))
            self._lists[name] = nested
        self._check_count(len(self._lists))
        return {name: self._info(name, *_kind_and_shape(nested)) for name, nested in self._lists.items()}

    def _nested_lists(self, content: Any, name: str = "", depth: int = 0) -> Iterator[tuple[str, list[Any]]]:
        if depth > self._limits.depth:
            raise self._data.error("too_deep")
        if isinstance(content, list) and not (content and isinstance(content[0], dict)):
            yield name or self._data.stem, content
        elif isinstance(content, dict | list):
            for key, value in content.items() if isinstance(content, dict) else enumerate(content):
                yield from self._nested_lists(value, f"{name}.{key}" if name else str(key), depth + 1)

    def _window(self, name: str, window: Window) -> torch.Tensor:
        return Typed.of(self._lists[name], most=self._limits.elements).tensor()[window].clone()


def _kind_and_shape(nested: Any) -> tuple[str, Shape]:
    """What the first element is, and the shape if all rows are as long as the first: a look, not a check."""
    shape = []
    while isinstance(nested, list) and nested:
        shape.append(len(nested))
        nested = nested[0]
    if isinstance(nested, list):
        return "decimal", (*shape, 0)
    number = isinstance(nested, int | float) and not isinstance(nested, bool)
    return ("decimal" if number else type(nested).__name__), tuple(shape)
