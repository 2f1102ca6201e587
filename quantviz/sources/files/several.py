"""Models in several files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from quantviz.sources.files.catalog import Catalog, Index, Loaded
from quantviz.sources.files.gguf import GgufCatalog

if TYPE_CHECKING:
    import torch

    from quantviz.sources.files.gguf_blocks import BlockType
    from quantviz.sources.files.mapped import Raw
    from quantviz.tensors.lazy import Stored


class InSeveral(Catalog, ABC):
    @abstractmethod
    def holder(self, name: str) -> Catalog:
        """Return the catalogue of the file that holds a tensor, which must exist."""

    def read(self, name: str, index: Index | None = None) -> Loaded:
        return self._holder(name).read(name, index)

    def cut(self, name: str, index: Index | None = None) -> torch.Tensor:
        return self._holder(name).cut(name, index)

    def header_texts(self, name: str) -> Mapping[str, str]:
        return self._holder(name).header_texts(name)

    def stored_bytes(self, name: str) -> int:
        return self._holder(name).stored_bytes(name)

    def stored(self, name: str) -> Stored:
        return self._holder(name).stored(name)

    def raw(self, name: str) -> Raw | None:
        return self._holder(name).raw(name)

    def version_of(self, name: str) -> str:
        return self.holder(name).version_of(name)

    def expect(self, names: Iterable[str]) -> None:
        found: dict[Catalog, list[str]] = {}
        for name in names:
            found.setdefault(self._holder(name), []).append(name)
        for holder, own in found.items():
            holder.expect(own)

    def _holder(self, name: str) -> Catalog:
        self._data.check()
        self.info(name)
        return self.holder(name)


class Joined(InSeveral):
    """Several open files as one catalogue.

    `holders` maps each tensor to its file, in order; by default all tensors, and of two with one name the
    first. `apart` are those of the model in files that are not open.
    """

    kind = "several files"

    def __init__(
        self,
        parts: Sequence[Catalog],
        holders: Mapping[str, Catalog] | None = None,
        apart: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.apart = apart
        self._files = tuple(parts)
        found = {name: part for part in reversed(parts) for name in part.names}
        in_order = dict.fromkeys(name for part in parts for name in part.names)
        self._holders = {name: found[name] for name in in_order} if holders is None else dict(holders)
        self._infos = {name: part.info(name) for name, part in self._holders.items()}
        #: In errors about the whole.
        self._data = parts[0]._data
        self._limits = parts[0]._limits

    def holder(self, name: str) -> Catalog:
        return self._holders[name]

    def close(self) -> None:
        for part in self._files:
            part.close()


class JoinedGguf(Joined, GgufCatalog):
    """Parts of a split .gguf, of which the first has the metadata."""

    def __init__(self, parts: Sequence[GgufCatalog], holders: Mapping[str, Catalog] | None = None) -> None:
        super().__init__(parts, holders)
        self.metadata = parts[0].metadata

    def block_type(self, name: str) -> BlockType | None:
        holder = self._holder(name)
        assert isinstance(holder, GgufCatalog)
        return holder.block_type(name)

    def blocks(self, name: str, start: int, stop: int) -> torch.Tensor:
        holder = self._holder(name)
        assert isinstance(holder, GgufCatalog)
        return holder.blocks(name, start, stop)
