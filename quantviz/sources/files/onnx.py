""".onnx: the initializers of a model's graphs and the tensors in its nodes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from quantviz.errors import QuantVizError
from quantviz.schemes.granularity import Window
from quantviz.schemes.orientation import Orientation
from quantviz.sources.files import onnx_schema as schema
from quantviz.sources.files.catalog import LazyInfos, TensorInfo
from quantviz.sources.files.file_data import MOST_LIKELY, FileData, clipped, cut_short
from quantviz.sources.files.onnx_schema import (
    DTYPES,
    DeclaredTensor,
    ElementType,
    entry_count,
    entry_range,
)
from quantviz.sources.files.onnx_structure import MOST_PIECES, OnnxStructure
from quantviz.sources.files.other_formats import stand_in
from quantviz.sources.files.protobuf import BYTES, DamagedMessage, message_fields, read_varints

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import torch

    from quantviz.sources.files.mapped import StoredRows

#: Most files of tensors that are open at once, and digits of a place in one.
_MOST_OPEN = 32
_MOST_DIGITS = 18
#: A model has a handful of fields besides its functions and metadata.
_FIELDS_COMPARED = 10_000
#: The first byte of a model that some program wrote: the field with the version of its format.
_VERSION_FIRST = b"\x08"


class OnnxCatalog(OnnxStructure):
    """The initializers of the main graph by name, then the tensors in nodes, in their graphs and in functions
    by their path.

    A path is `graph/<node>/<attribute>`, and goes on after an attribute that is a graph:
    `graph/If_3/then_branch/weight`. A node without a name is named by its operator and its place. A single
    number in a node does not count as a tensor here.

    A tensor's elements may lie in another file, in the model's folder or below it. The `onnx` package's
    protobuf classes read all of a model into memory, up to 2 GB: to list one of 513 MiB takes them 1,030 MiB
    more, and 56 here, in as much time. Only its structure is walked, within limits, and parts of a tensor are
    read where they lie.
    """

    kind = "ONNX"
    suffixes = (".onnx",)
    snippet = (
        "import numpy, onnx, onnx.numpy_helper as helper\n"
        "x = helper.to_array(next(each for each in onnx.load({file!r}).graph.initializer"
        " if each.name == {name!r}))[:512]\n"
        'numpy.save("cut_out.npy", x)'
    )

    @classmethod
    def recognises(cls, data: FileData) -> bool:
        seen = graphs = 0
        try:
            for field in message_fields(data.view, 0, data.size):
                seen += 1
                graphs += field.number == schema.GRAPH and field.wire == BYTES
                if field.number not in schema.MODEL_FIELDS or seen > _FIELDS_COMPARED:
                    return False
        except DamagedMessage:
            return False
        return graphs == 1

    @classmethod
    def wanted(cls, data: FileData) -> int | None:
        if bytes(data.view[:1]) != _VERSION_FIRST:
            return None
        try:
            fields = message_fields(data.view, 0, data.size, cut=True)
            for field in itertools.islice(fields, _FIELDS_COMPARED):
                if field.number not in schema.MODEL_FIELDS:
                    return None
                if field.stop > data.size:
                    of_graph = field.number == schema.GRAPH and field.wire == BYTES
                    return field.stop if of_graph and field.stop <= MOST_LIKELY else None
        except DamagedMessage:
            pass
        return None

    def _list(self) -> Mapping[str, TensorInfo]:
        self._begin()
        self._tensors: dict[str, tuple[DeclaredTensor, ElementType]] = {}
        #: Open files beside the model; the last one used is last.
        self._files: dict[str, FileData] = {}
        self._beside: dict[str, TensorInfo] = {}
        self._model()
        return LazyInfos(self._found, self.info_of)

    # ---- the declaration of a tensor ------------------------------------------------------------

    def _tensor_info(self, tensor: DeclaredTensor, name: str) -> TensorInfo:
        self._check_axes(name, tensor.axes)
        shape = tuple(tensor.dims)
        if tensor.sparse:
            return TensorInfo("sparse", shape, problem=self._unreadable(name, "sparse"))
        dtype = DTYPES.get(tensor.data_type)
        if dtype is None:
            return self._info(name, str(tensor.data_type), shape)
        info = self._info(name, dtype.name, shape)
        # Those of fewer than 8 bits are numbers too, and unpacked here.
        if info.problem and not 0 < dtype.bits < 8:
            return info
        if tensor.external:
            self._tensors[name] = tensor, dtype
            return TensorInfo(dtype.name, shape)
        too_many = max(map(len, tensor.data.values()), default=0) > MOST_PIECES
        if too_many or tensor.segment or not self._holds(tensor, dtype, math.prod(shape)):
            return TensorInfo(dtype.name, shape, problem=self._damaged(name))
        self._tensors[name] = tensor, dtype
        # Integers of varying length have to be decoded from the first one on, whatever part is wanted.
        if info.count > self._limits.elements and self._elements(name)[0] not in schema.AS_STORED:
            return TensorInfo(dtype.name, shape, problem=self._too_large(name, info.count))
        return info if not info.problem else TensorInfo(dtype.name, shape)

    def _holds(self, tensor: DeclaredTensor, dtype: ElementType, count: int) -> bool:
        """Return whether one field holds the elements, the right one, and as many as the shape has."""
        fields = [number for number, chunks in tensor.data.items() if chunks]
        if not count or not fields:
            return not count and not fields
        got = sum(stop - start for start, stop in tensor.data[fields[0]])
        if fields == [schema.RAW]:
            return got == -(-count * dtype.bits // 8)
        if fields != [dtype.field]:
            return False
        if dtype.field in (schema.FLOATS, schema.DOUBLES):
            return got == count * dtype.bits // 8
        # Integers take a byte at least; how many there are is seen when they are read.
        return got >= entry_count(dtype, count)

    # ---- tensors in other files -----------------------------------------------------------------

    def info_of(self, name: str) -> TensorInfo:
        """Return the facts of a listed tensor; another file that it lies in is opened."""
        info = self._found[name]
        if info.problem or name not in self._tensors or not self._tensors[name][0].external:
            return info
        if name not in self._beside:
            problem: QuantVizError | None = None
            try:
                self._external(name)
            except QuantVizError as caught:
                problem = caught.again()
            self._beside[name] = TensorInfo(info.dtype, info.shape, problem=problem)
        return self._beside[name]

    def _external(self, name: str) -> tuple[FileData, int]:
        """Return the file beside the model with the elements, and their offset there.

        Raises:
            QuantVizError: The file is missing, not beside the model, or too short.
        """
        from quantviz.sources.files.mapped import packing_of

        tensor, dtype = self._tensors[name]
        size = packing_of(dtype.name).byte_count(math.prod(tensor.dims))
        places = [
            tensor.external.get(key) or str(otherwise) for key, otherwise in (("offset", 0), ("length", size))
        ]
        if not all(place.isascii() and place.isdecimal() and len(place) <= _MOST_DIGITS for place in places):
            raise self._damaged(name)
        offset, length = map(int, places)
        if length != size:
            raise self._damaged(name)
        data = self._file(tensor.external.get("location", ""))
        if offset + length > data.size:
            raise cut_short(data, offset + length)
        return data, offset

    def _file(self, location: str) -> FileData:
        """Return an open file beside the model; of too many the least recently used is closed."""
        data = self._files.pop(location, None)
        if data is None:
            try:
                data = self._data.beside(location)
            except QuantVizError as problem:
                if problem.key == "file.shards_elsewhere":
                    raise self._data.error("onnx_external", location=clipped(location)) from None
                raise
            if (in_place := stand_in(data)) is not None:
                data.close()
                raise in_place
            while len(self._files) >= _MOST_OPEN:
                self._files.pop(next(iter(self._files))).close()
        self._files[location] = data
        return data

    def data_of(self, name: str) -> FileData:
        return self._external(name)[0] if self._tensors[name][0].external else self._data

    def _declared_orientation(self, name: str) -> Orientation | None:
        return self.graph.orientation(name, len(self._found[name].shape))

    def close(self) -> None:
        for data in self._files.values():
            data.close()
        self._files = {}
        super().close()

    # ---- its elements ---------------------------------------------------------------------------

    def _stored_rows(self, name: str) -> StoredRows | None:
        from quantviz.sources.files.mapped import StoredRows, packing_of

        tensor, of_external = self._tensors[name]
        if tensor.external:
            return StoredRows(self._external(name)[1], packing_of(of_external.name))
        field, chunks, dtype, count = self._elements(name)
        packing = packing_of(dtype.name)
        whole = len(chunks) == 1 and chunks[0][1] - chunks[0][0] == packing.byte_count(count)
        return StoredRows(chunks[0][0], packing) if whole and field in schema.AS_STORED else None

    def _cutter(self, name: str) -> Callable[[Window], torch.Tensor]:
        from quantviz.sources.files.mapped import by_table, cut, packing_of, values_of

        if self._stored_rows(name):
            return super()._cutter(name)
        field, chunks, dtype, count = self._elements(name)
        packing = packing_of(dtype.name)
        shape = self._infos[name].shape
        if field in schema.AS_STORED:
            joined = b"".join(self._data.view[start:stop] for start, stop in chunks)
            # Codes of 6 bits may end within the unit of 3 bytes.
            raw = memoryview(joined.ljust(packing.byte_count(count), b"\0"))
        else:
            raw = memoryview(self._integers(name).view("uint8"))  # type: ignore[arg-type]
            if 4 < dtype.bits < 8:  # a byte each
                packing = by_table(values_of(dtype.name))
        return lambda window: cut(raw, packing, shape, window)

    def _elements(self, name: str) -> tuple[int, list[tuple[int, int]], ElementType, int]:
        """Return the field, the places, the dtype and the count of the elements."""
        tensor, dtype = self._tensors[name]
        field = next(number for number, chunks in tensor.data.items() if chunks)
        return field, tensor.data[field], dtype, math.prod(tensor.dims)

    def _integers(self, name: str) -> npt.NDArray[np.unsignedinteger]:
        """Return the entries of a field of integers, each in as many bits as the dtype has, at least 8."""
        import numpy as np

        _, chunks, dtype, count = self._elements(name)
        entries = np.empty(entry_count(dtype, count), dtype=f"uint{max(8, dtype.bits)}")
        lowest, highest = entry_range(dtype)
        at = 0
        for start, stop in chunks:
            for numbers in read_varints(self._data.view[start:stop]):
                # An int32 is written as 64 bits where it is negative, of which the lower 32 count.
                values = numbers.astype(np.uint32).view(np.int32) if dtype.field == schema.INT32S else numbers
                if at + len(values) > len(entries) or values.min() < lowest or values.max() > highest:
                    raise self._damaged(name)
                entries[at : at + len(values)] = values.astype(entries.dtype)
                at += len(values)
        if at < len(entries):
            raise self._damaged(name)
        return entries
