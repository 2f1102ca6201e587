"""A sharded model: an index in JSON that says which of the .safetensors files beside it holds each tensor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePath

from quantviz.errors import QuantVizError
from quantviz.sources.files.catalog import TensorInfo
from quantviz.sources.files.file_data import FileData, clipped
from quantviz.sources.files.json_text import parsed_json
from quantviz.sources.files.safetensors import SafetensorsCatalog
from quantviz.sources.files.several import InSeveral
from quantviz.sources.limits import Limits

#: The part of the index that says where each tensor is.
_WEIGHT_MAP = "weight_map"


class _Infos(Mapping[str, TensorInfo]):
    """What is known of each tensor; its shard is opened for it."""

    def __init__(self, catalog: ShardedCatalog, shards: Mapping[str, str]) -> None:
        self._catalog, self._shards = catalog, shards

    def __getitem__(self, name: str) -> TensorInfo:
        return self._catalog.holder(name).info(name)

    def __contains__(self, name: object) -> bool:
        return name in self._shards

    def __iter__(self) -> Iterator[str]:
        return iter(self._shards)

    def __len__(self) -> int:
        return len(self._shards)


class ShardedCatalog(InSeveral):
    """The tensors of all shards. A shard is opened when one of its tensors is asked for."""

    kind = "safetensors index"
    suffixes = (".safetensors.index.json",)
    snippet = (
        "import json, pathlib, safetensors.torch as st\n"
        'with st.safe_open(json.loads(pathlib.Path({file!r}).read_text())["weight_map"][{name!r}], "pt")'
        " as file: x = file.get_slice({name!r})[:512]\n"
        'st.save_file({{"cut_out": x.contiguous()}}, "cut_out.safetensors")'
    )

    @classmethod
    def recognises(cls, data: FileData) -> bool:
        return bytes(data.part(0, 1)) == b"{" and f'"{_WEIGHT_MAP}"'.encode() in bytes(
            data.part(0, Limits().header_bytes)
        )

    def _list(self) -> Mapping[str, TensorInfo]:
        # It is the list of tensors that a single file has in its header.
        self._check_header(self._data.size)
        shards = parsed_json(self._data, self._data.view, self._limits)[_WEIGHT_MAP]
        self._check_count(len(shards))
        for shard in set(shards.values()):
            if (
                not shard.endswith(SafetensorsCatalog.suffixes)
                or PurePath(shard).name != shard
                or "\\" in shard
                or shard.startswith(".")
            ):
                raise self._data.error("shard_name", shard=clipped(shard))
        #: The shard of each tensor.
        self._shards: dict[str, str] = shards
        #: The shards that are open.
        self._open: dict[str, SafetensorsCatalog] = {}
        return _Infos(self, shards)

    def holder(self, name: str) -> SafetensorsCatalog:
        """Return the shard that holds the tensor `name` of the index."""
        shard = self._shards[name]
        if shard not in self._open:
            self._open[shard] = self._opened(shard)
        if name not in self._open[shard].names:
            raise self._data.error("shard_lacks", name=clipped(name), shard=clipped(shard))
        return self._open[shard]

    def _opened(self, shard: str) -> SafetensorsCatalog:
        data = self._data.beside(shard)
        try:
            SafetensorsCatalog.check_kind(data)
            return SafetensorsCatalog(data, self._limits)
        except QuantVizError:
            data.close()
            raise

    def shard_of(self, name: str) -> str:
        """Return the name of the file that holds the tensor `name` of the index."""
        return self._shards[name]

    @property
    def open_shards(self) -> tuple[str, ...]:
        """Return the names of the files that have been opened."""
        return tuple(self._open)

    def names_in(self, shard: str) -> tuple[str, ...]:
        """Return the names of all tensors in an open shard, whether the index names them or not."""
        return self._open[shard].names

    def close(self) -> None:
        for catalog in self._open.values():
            catalog.close()
        super().close()
