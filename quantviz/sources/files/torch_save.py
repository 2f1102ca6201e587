""".pt, .pth: what `torch.save` writes. Only ever read with `weights_only=True`, which runs no code of the file."""

from __future__ import annotations

import pickle
import pickletools
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import IO, TYPE_CHECKING, Any

from quantviz.granularity import Window
from quantviz.sources.files.catalog import Catalog, FileData, TensorInfo, clipped
from quantviz.sources.files.npz import member_names

if TYPE_CHECKING:
    import torch


class TorchCatalog(Catalog):
    """The tensors of a state dict, of nested dicts and lists by dotted names, or a single one named after the file."""

    kind = "PyTorch"
    suffixes = (".pt", ".pth", ".bin")
    snippet = (
        "import torch\n"
        'x = torch.load({file!r}, weights_only=True, mmap=True, map_location="cpu")[{name!r}][:512]\n'
        'torch.save({{"cut_out": x.detach().clone()}}, "cut_out.pt")'
    )

    @classmethod
    def recognises(cls, data: FileData) -> bool:
        # Before version 1.6 torch wrote plain pickles.
        return bytes(data.view[:1]) == b"\x80" or any(name.endswith("/data.pkl") for name in member_names(data))

    def _list(self) -> Mapping[str, TensorInfo]:
        zipped = bytes(self._data.view[:2]) == b"PK"
        if zipped:
            self._check_members()
        content = self._loaded(mapped=zipped and self._data.path is not None)
        self._tensors: dict[str, torch.Tensor] = {}
        for name, tensor in self._walk(content):
            if name in self._tensors:
                raise self._data.error("duplicate_name", name=clipped(name))
            self._tensors[name] = tensor
            self._check_count(len(self._tensors))
        return {name: self._tensor_info(name, tensor) for name, tensor in self._tensors.items()}

    def _check_members(self) -> None:
        """torch packs nothing, so a packed member is somebody's bomb; what is not packed cannot be larger than the file."""
        with self._data.stream() as stream, zipfile.ZipFile(stream) as archive:
            members = archive.infolist()
        if any(member.filename.endswith("/constants.pkl") for member in members):
            raise self._data.error("torchscript")
        if any(member.compress_type != zipfile.ZIP_STORED or member.file_size != member.compress_size for member in members):
            raise self._data.error("damaged", kind=self.kind)
        if any(member.filename.endswith(".pkl") and member.file_size > self._limits.header_bytes for member in members):
            raise self._data.error("header_too_large", got=max(member.file_size for member in members), most=self._limits.header_bytes)

    def _loaded(self, mapped: bool) -> Any:
        import torch

        try:
            if mapped and self._data.path:
                return torch.load(self._data.path, weights_only=True, map_location="cpu", mmap=True)
            with self._data.stream() as stream:
                return torch.load(stream, weights_only=True, map_location="cpu")
        except (pickle.UnpicklingError, UserWarning):
            # torch's own sentence recommends the switch that runs a file's code.
            raise self._data.error("python_objects" if self._is_whole() else "damaged", kind=self.kind) from None

    def _is_whole(self) -> bool:
        """Whether the pickles can be followed to their ends: then torch refused what they hold, not their damage."""
        with self._data.stream() as stream, ExitStack() as stack:
            pickles: IO[bytes] = stream
            if bytes(self._data.view[:2]) == b"PK":
                archive = stack.enter_context(zipfile.ZipFile(stream))
                pickles = stack.enter_context(archive.open(next(name for name in archive.namelist() if name.endswith("/data.pkl"))))
            try:
                # An old file begins with five: magic number, version, system, object, keys.
                for _ in range(5):
                    if not pickles.read(1):
                        break
                    pickles.seek(-1, 1)
                    for _ in pickletools.genops(pickles):
                        pass
            except ValueError:
                return False
        return True

    def _walk(self, content: Any) -> Iterator[tuple[str, torch.Tensor]]:
        """The tensors in dicts and lists, each container once, in order."""
        import torch

        seen: set[int] = set()
        waiting: list[tuple[str, Any, int]] = [("", content, 0)]
        while waiting:
            name, value, depth = waiting.pop()
            if isinstance(value, torch.Tensor):
                yield name or self._data.stem, value
            elif isinstance(value, dict | list | tuple) and id(value) not in seen:
                if depth > self._limits.depth:
                    raise self._data.error("too_deep")
                seen.add(id(value))
                items = value.items() if isinstance(value, dict) else enumerate(value)
                waiting.extend(reversed([(f"{name}.{key}" if name else str(key), item, depth + 1) for key, item in items]))

    def _tensor_info(self, name: str, tensor: torch.Tensor) -> TensorInfo:
        import torch

        shape = tuple(tensor.shape)
        if tensor.layout != torch.strided:
            return TensorInfo("sparse", shape, problem=self._unreadable(name, "sparse"))
        dtype = str(tensor.dtype).removeprefix("torch.")
        info = self._info(name, dtype, shape)
        # Sizes and strides are the file's word; no element may lie where the file has none.
        if info.problem is None and (tensor.device.type != "cpu" or tensor.untyped_storage().nbytes() > self._data.size):
            return TensorInfo(dtype, shape, problem=self._data.error("tensor_damaged", name=clipped(name)))
        return info

    def _window(self, name: str, window: Window) -> torch.Tensor:
        import torch

        return self._tensors[name].detach()[window].clone(memory_format=torch.contiguous_format)
