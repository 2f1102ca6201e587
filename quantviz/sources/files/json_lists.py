""".json: a nested list, or an object of name → nested list."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from quantviz.schemes.granularity import Window
from quantviz.sources.files.catalog import Catalog, TensorInfo
from quantviz.sources.files.file_data import FileData, clipped, parsed_json
from quantviz.sources.nested_numbers import flattened

if TYPE_CHECKING:
    import torch


class JsonCatalog(Catalog):
    """The nested lists of a JSON file.

    Objects inside objects give dotted names; single numbers and texts are left out.
    """

    kind = "JSON"
    suffixes = (".json",)
    snippet = (
        "import json, numpy\n"
        "x = numpy.array(json.load(open({file!r}))[{name!r}])[:512]\n"
        'numpy.save("cut_out.npy", x)'
    )

    @classmethod
    def recognises(cls, data: FileData) -> bool:
        return bytes(data.view[:4096]).removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"[", b"{")

    def _list(self) -> Mapping[str, TensorInfo]:
        if self._data.size > self._limits.json_bytes:
            raise self._data.beyond("too_large", self._limits, "json_bytes", self._data.size)
        try:
            content = parsed_json(self._data, self._data.view, self._limits)
        except UnicodeDecodeError:
            raise self._data.error("not_text") from None
        self._lists: dict[str, list[Any]] = {}
        for name, nested in self._nested_lists(content if isinstance(content, dict | list) else {}):
            if name in self._lists:
                raise self._data.error("duplicate_name", name=clipped(name))
            self._lists[name] = nested
        self._check_count(len(self._lists))
        return {name: self._list_info(name, nested) for name, nested in self._lists.items()}

    def _list_info(self, name: str, nested: list[Any]) -> TensorInfo:
        kind, lengths = _kind_and_lengths(nested)
        return self._info(name, kind, self._shape(name, lengths))

    def _nested_lists(self, content: Any) -> Iterator[tuple[str, list[Any]]]:
        length = 0
        waiting: list[tuple[str, Any, int]] = [("", content, 0)]
        while waiting:
            name, value, depth = waiting.pop()
            if depth > self._limits.depth:
                raise self._data.beyond("too_deep", self._limits, "depth", depth)
            if isinstance(value, list) and not (value and isinstance(value[0], dict)):
                yield name or self._data.stem, value
                continue
            inside = []
            for key, item in value.items() if isinstance(value, dict) else enumerate(value):
                if isinstance(item, dict | list):
                    inside.append((f"{name}.{key}" if name else str(key), item, depth + 1))
                    # A long name is repeated in the name of everything below it.
                    length += len(inside[-1][0])
                    self._check_header(length)
            waiting.extend(reversed(inside))

    def _cutter(self, name: str) -> Callable[[Window], torch.Tensor]:
        import torch

        values, shape = flattened(self._lists[name], self._limits.elements)
        return torch.frombuffer(values, dtype=torch.float64).to(torch.float32).reshape(shape).__getitem__


def _kind_and_lengths(nested: Any) -> tuple[str, list[int]]:
    """Return the kind of the first element, and the lengths of the axes if all rows are as long as the first.

    Only first elements are read, and nothing is checked.
    """
    lengths = []
    while isinstance(nested, list) and nested:
        lengths.append(len(nested))
        nested = nested[0]
    if isinstance(nested, list):
        return "decimal", [*lengths, 0]
    number = isinstance(nested, int | float) and not isinstance(nested, bool)
    return ("decimal" if number else type(nested).__name__), lengths
