"""A sharded model: an index in JSON that maps each tensor to one of the files beside it.

Shards are .safetensors, or .bin of PyTorch, read with `weights_only=True` as all its files are.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import PurePath
from typing import ClassVar

from quantviz.errors import QuantVizError
from quantviz.sources.files.catalog import WEIGHT_MAP, Catalog, LazyInfos, TensorInfo
from quantviz.sources.files.file_data import FileData, clipped, parsed_json
from quantviz.sources.files.safetensors import SafetensorsCatalog
from quantviz.sources.files.several import InSeveral
from quantviz.sources.files.torch_save import TorchCatalog
from quantviz.sources.limits import Limits


class ShardedCatalog(InSeveral):
    """A shard is opened when one of its tensors is first read."""

    kind = "safetensors index"
    suffixes = (".safetensors.index.json",)
    of_shards: ClassVar[type[Catalog]] = SafetensorsCatalog
    snippet = (
        "import json, pathlib, safetensors.torch as st\n"
        'with st.safe_open(json.loads(pathlib.Path({file!r}).read_text())["weight_map"][{name!r}], "pt")'
        " as file: x = file.get_slice({name!r})[:512]\n"
        'st.save_file({{"cut_out": x.contiguous()}}, "cut_out.safetensors")'
    )

    @classmethod
    def recognises(cls, data: FileData) -> bool:
        return bytes(data.part(0, 1)) == b"{" and f'"{WEIGHT_MAP}"'.encode() in bytes(
            data.part(0, Limits().header_bytes)
        )

    def _list(self) -> Mapping[str, TensorInfo]:
        # It is the list of tensors that a single file has in its header.
        self._check_header(self._data.size)
        listed = parsed_json(self._data, self._data.view, self._limits)
        shards = listed[WEIGHT_MAP]
        self._check_count(len(shards))
        for shard in set(shards.values()):
            here = PurePath(shard).name == shard and "\\" not in shard and not shard.startswith(".")
            if not here or not shard.endswith(self.of_shards.suffixes):
                raise self._data.error("shard_name", shard=clipped(shard))
        self._shards: dict[str, str] = shards
        #: Bytes of all tensors, where the index says them.
        self.whole_bytes = _bytes_of(listed.get("metadata"))
        self._open: dict[str, Catalog] = {}
        return LazyInfos(shards, lambda name: self.holder(name).info(name))

    @functools.cached_property
    def apart(self) -> Mapping[str, str]:
        missing = {shard for shard in self.shards if not self.is_beside(shard)}
        return {name: shard for name, shard in self._shards.items() if shard in missing}

    def holder(self, name: str) -> Catalog:
        shard = self._shards[name]
        if name not in self.shard(shard):
            raise self.lacks(name)
        return self.shard(shard)

    def lacks(self, name: str) -> QuantVizError:
        """Return the error that a shard does not hold its tensor; it names an open one that does."""
        shard = self._shards[name]
        where = next((each for each, opened in self._open.items() if name in opened), None)
        if where is None:
            return self._data.error("shard_lacks", name=clipped(name), shard=clipped(shard))
        return self._data.error(
            "shard_elsewhere", name=clipped(name), shard=clipped(shard), where=clipped(where)
        )

    def shard(self, shard: str) -> Catalog:
        """Return a shard by its name; `QuantVizError` where it cannot be opened."""
        if shard not in self._open:
            self._open[shard] = self._opened(shard)
        return self._open[shard]

    def _opened(self, shard: str) -> Catalog:
        kind = self.of_shards
        data = self._data.beside(shard)
        try:
            kind.check_kind(data)
            return kind(data, self._limits)
        except QuantVizError:
            data.close()
            raise

    def shard_of(self, name: str) -> str:
        return self._shards[name]

    @property
    def shards(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self._shards.values()))

    def close(self) -> None:
        for catalog in self._open.values():
            catalog.close()
        super().close()


def _bytes_of(metadata: object) -> int | None:
    size = metadata.get("total_size") if isinstance(metadata, dict) else None
    return int(size) if isinstance(size, int | float) and 0 < size < 2**63 else None


class ShardedTorch(ShardedCatalog):
    """Shards that `torch.save` wrote: pytorch_model-00001-of-00002.bin."""

    kind = "PyTorch index"
    suffixes = (".bin.index.json",)
    snippet = (
        "import json, pathlib, torch\n"
        'x = torch.load(json.loads(pathlib.Path({file!r}).read_text())["weight_map"][{name!r}], '
        'weights_only=True, mmap=True, map_location="cpu")[{name!r}][:512]\n'
        'torch.save({{"cut_out": x.detach().clone()}}, "cut_out.pt")'
    )
    of_shards = TorchCatalog

    @classmethod
    def recognises(cls, data: FileData) -> bool:
        # Only by its name: the same text is an index of either kind.
        return data.name.lower().endswith(cls.suffixes) and super().recognises(data)
