""".npz: a zip of .npy members."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from typing import TYPE_CHECKING

from quantviz.granularity import Window
from quantviz.sources.files.catalog import Catalog, FileData, TensorInfo, clipped
from quantviz.sources.files.npy import NpyHeader, read_header, read_values

if TYPE_CHECKING:
    import torch

#: How members may be packed: as numpy packs them.
_PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 1


def member_names(data: FileData) -> list[str]:
    """The names in a zip; none if it is no zip that can be read."""
    if bytes(data.view[:2]) != b"PK":
        return []
    try:
        with data.stream() as stream, zipfile.ZipFile(stream) as archive:
            return archive.namelist()
    except Exception:
        return []


class NpzCatalog(Catalog):
    """The arrays of a .npz by their member's name."""

    kind = ".npz"
    suffixes = (".npz",)
    snippet = 'import numpy\nx = numpy.load({file!r})[{name!r}][:512]\nnumpy.save("cut_out.npy", x)'

    @classmethod
    def recognises(cls, data: FileData) -> bool:
        return any(name.endswith(".npy") for name in member_names(data))

    def _list(self) -> Mapping[str, TensorInfo]:
        self._members: dict[str, tuple[zipfile.ZipInfo, NpyHeader]] = {}
        infos: dict[str, TensorInfo] = {}
        with self._data.stream() as stream, zipfile.ZipFile(stream) as archive:
            self._check_count(len(archive.infolist()))
            for member in archive.infolist():
                if not member.filename.endswith(".npy"):
                    continue
                name = member.filename.removesuffix(".npy")
                if name in infos:
                    raise self._data.error("duplicate_name", name=clipped(name))
                infos[name] = self._member_info(archive, member, name)
        return infos

    def _member_info(self, archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str) -> TensorInfo:
        damaged = self._data.error("tensor_damaged", name=clipped(name))
        if member.flag_bits & _ENCRYPTED or member.compress_type not in _PACKINGS:
            return TensorInfo("unknown", (), problem=damaged)
        with archive.open(member) as packed:
            header = read_header(packed)  # type: ignore[arg-type]
        if header is None:
            return TensorInfo("unknown", (), problem=damaged)
        info = self._info(name, header.dtype, header.shape)
        # The size the zip declares and the one the array declares must agree before anything is inflated.
        if info.problem is None and member.file_size != header.offset + header.data_bytes:
            return TensorInfo(info.dtype, info.shape, problem=damaged)
        if info.count > self._limits.elements:
            too_large = self._data.error("tensor_too_large", name=clipped(name), got=info.count, most=self._limits.elements)
            return TensorInfo(info.dtype, info.shape, problem=info.problem or too_large)
        self._members[name] = member, header
        return info

    def _window(self, name: str, window: Window) -> torch.Tensor:
        member, header = self._members[name]
        with self._data.stream() as stream, zipfile.ZipFile(stream) as archive, archive.open(member) as packed:
            packed.read(header.offset)
            values = packed.read(header.data_bytes)
        if len(values) != header.data_bytes:
            raise self._data.error("tensor_damaged", name=clipped(name))
        return read_values(header, memoryview(values), window)
