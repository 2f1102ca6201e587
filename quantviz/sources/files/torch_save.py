"""Files of `torch.save`, only ever read with `weights_only=True`, which runs no code of the file."""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Callable, Mapping
from io import BytesIO
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from quantviz.schemes.granularity import Window
from quantviz.sources.files.catalog import Catalog, TensorInfo
from quantviz.sources.files.file_data import FileData
from quantviz.sources.files.torch_pickle import Forbidden, StoragePlan, follow
from quantviz.sources.files.zips import has_one_list, member_names, opened_zip

if TYPE_CHECKING:
    import torch

    from quantviz.sources.files.mapped import Raw


class _Unnamed:
    """A stream without its file's descriptor, with which torch would unpack old archives into a folder."""

    def __init__(self, stream: BinaryIO) -> None:
        self.read, self.readline, self.readinto = stream.read, stream.readline, getattr(stream, "readinto")  # noqa: B009
        self.seek = stream.seek
        self.tell = stream.tell


class TorchCatalog(Catalog):
    """A state dict, or a single tensor, named after the file. Nested dicts and lists give dotted names."""

    kind = "PyTorch"
    suffixes = (".pt", ".pth", ".bin", ".ckpt", ".pth.tar", ".pt.tar")
    snippet = (
        "import torch\n"
        'x = torch.load({file!r}, weights_only=True, mmap=True, map_location="cpu")[{name!r}][:512]\n'
        'torch.save({{"cut_out": x.detach().clone()}}, "cut_out.pt")'
    )

    @classmethod
    def recognises(cls, data: FileData) -> bool:
        # Before version 1.6 torch wrote plain pickles.
        return bytes(data.view[:1]) == b"\x80" or any(
            name.endswith("/data.pkl") for name in member_names(data)
        )

    def _list(self) -> Mapping[str, TensorInfo]:
        zipped = bytes(self._data.view[:2]) == b"PK"
        # Torch calls the functions that the file names, if only from a list of its own: check these first.
        self._check(self._zipped_plan if zipped else self._old_plan)
        content = self._loaded(mapped=zipped and self._data.path is not None)
        self._tensors: dict[str, torch.Tensor] = self._leaves(content, _is_tensor)
        return {name: self._tensor_info(name, tensor) for name, tensor in self._tensors.items()}

    def _check(self, plan: Callable[[], StoragePlan]) -> None:
        try:
            count = plan().tensors
        except Forbidden:
            raise self._data.error("python_objects") from None
        self._check_count(count)

    def _zipped_plan(self) -> StoragePlan:
        """Torch compresses nothing: a compressed member is an attack, and all together fit the file."""
        with opened_zip(self._data, self._limits) as archive:
            listed = archive.infolist()
            # Torch takes the names as they are written, and of those that differ in case alone any.
            members = {member.orig_filename: member for member in listed}
            if any(name.endswith("/constants.pkl") for name in members):
                raise self._data.error("torchscript")
            packed = any(
                member.compress_type != zipfile.ZIP_STORED or member.file_size != member.compress_size
                for member in listed
            )
            twice = len({name.lower() for name in members}) < len(listed) or not has_one_list(self._data)
            if packed or twice or sum(member.file_size for member in listed) > self._data.size:
                raise self._data.error("damaged", kind=self.kind)
            pickles = [name for name in members if name.endswith("/data.pkl")]
            longest = max(members[name].file_size for name in pickles)
            self._check_header(longest)
            plan = StoragePlan()
            follow(BytesIO(archive.read(members[pickles[0]])), plan)
        root = pickles[0].removesuffix("data.pkl")
        for storage in plan.storages.values():
            if members[f"{root}data/{storage.key}"].file_size != storage.nbytes:
                raise self._data.error("damaged", kind=self.kind)
        return plan

    def _old_plan(self) -> StoragePlan:
        """Before version 1.6 a magic number, version, system, object and keys are a pickle each."""
        plan = StoragePlan()
        pickles = BytesIO(self._data.view[: self._limits.header_bytes])
        for _ in range(5):
            follow(pickles, plan)
        if sum(storage.nbytes for storage in plan.storages.values()) > self._data.size:
            raise self._data.error("damaged", kind=self.kind)
        return plan

    def _loaded(self, mapped: bool) -> Any:
        import torch

        try:
            if mapped and self._data.path:
                return torch.load(self._data.path, weights_only=True, map_location="cpu", mmap=True)
            with self._data.stream() as stream:
                return torch.load(cast(BinaryIO, _Unnamed(stream)), weights_only=True, map_location="cpu")
        except (pickle.UnpicklingError, UserWarning):
            # torch's own sentence recommends the switch that runs a file's code.
            raise self._data.error("python_objects") from None

    def _tensor_info(self, name: str, tensor: torch.Tensor) -> TensorInfo:
        import torch

        shape = self._shape(name, tensor.shape)
        if tensor.layout != torch.strided:
            return TensorInfo("sparse", shape, problem=self._unreadable(name, "sparse"))
        dtype = str(tensor.dtype).removeprefix("torch.")
        info = self._info(name, dtype, shape)
        # Sizes and strides are the file's word; no element may lie where the file has none.
        beyond = tensor.device.type != "cpu" or tensor.untyped_storage().nbytes() > self._data.size
        if info.problem is None and beyond:
            return TensorInfo(dtype, shape, problem=self._damaged(name))
        # Strides of 0 repeat a few bytes as often as the file likes.
        count = tensor.numel()
        if count > self._limits.elements and count * tensor.itemsize > self._data.size:
            return TensorInfo(dtype, shape, problem=self._too_large(name, count))
        return info

    def raw(self, name: str) -> Raw | None:
        import torch

        from quantviz.sources.files.file_data import BytesHeld
        from quantviz.sources.files.mapped import Raw, plain

        info = self._readable(name)
        tensor = self._tensors[name].detach()
        if not info.shape or not info.count or not tensor.is_contiguous():
            return None
        view = memoryview(tensor.view(-1).view(torch.uint8).numpy())  # type: ignore[arg-type]
        return Raw(plain(tensor.dtype), BytesHeld(view), 0, view.nbytes)

    def _cutter(self, name: str) -> Callable[[Window], torch.Tensor]:
        return lambda window: self._tensors[name].detach()[window].clone()


def _is_tensor(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor)
