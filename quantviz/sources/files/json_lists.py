""".json: a nested list, or an object of name → nested list."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from quantviz.schemes.granularity import Window
from quantviz.sources.files.catalog import Catalog, TensorInfo
from quantviz.sources.files.file_data import FileData, parsed_json
from quantviz.sources.nested_numbers import flattened

if TYPE_CHECKING:
    import torch


class JsonCatalog(Catalog):
    """Objects inside objects give dotted names; single numbers and texts are left out."""

    kind = "JSON"
    suffixes = (".json",)
    of_models = False
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
        self._lists: dict[str, list[Any]] = self._leaves(content, _is_nested_list)
        infos = {}
        for name, nested in self._lists.items():
            kind, lengths = _kind_and_lengths(nested)
            infos[name] = self._info(name, kind, self._shape(name, lengths))
        return infos

    def _cutter(self, name: str) -> Callable[[Window], torch.Tensor]:
        import torch

        values, shape = flattened(self._lists[name], self._limits.elements)
        # It is made anew for each call.
        return torch.frombuffer(values, dtype=torch.float64).to(torch.float32).reshape(shape).__getitem__


def _is_nested_list(value: Any) -> bool:
    return isinstance(value, list) and not (value and isinstance(value[0], dict))


def _kind_and_lengths(nested: Any) -> tuple[str, list[int]]:
    """Return the kind of the first element, and the lengths if all rows are as long as the first.

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
