"""The weights of a model in any form of file: quantized ones decoded, under their own names.

The one way to "the weight of this name": for both sides of an audit, for a scan, the command and the Lab.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType

import torch

from quantviz.errors import Note, QuantVizError
from quantviz.schemes.granularity import PerTensor, Window
from quantviz.schemes.orientation import Orientation
from quantviz.schemes.scheme import Scheme
from quantviz.sources.files.catalog import Catalog, Index, LazyInfos, Loaded, TensorInfo
from quantviz.sources.files.mapped import Raw
from quantviz.sources.files.several import Joined
from quantviz.sources.layouts import QuantizedWeight, quantized_weights
from quantviz.sources.layouts.forms import prefix_of
from quantviz.sources.layouts.unclaimed import check_values
from quantviz.sources.layouts.weight import unreadable
from quantviz.tensors.lazy import ByRows, OwnScales, Stored, Values

#: The suffix of the name of codes that have the weight's name in the file.
CODES = ":codes"
#: The suffix of a weight's name in older links, from when the codes kept the name.
DECODED = ":decoded"


class DecodedWeight(ByRows):
    """A quantized weight, decoded a part at a time while its file is open.

    `check` raises once the file has changed.
    """

    def __init__(self, weight: QuantizedWeight, check: Callable[[], None]) -> None:
        self._weight = weight
        self._check = check
        self._shape = weight.own_shape
        self._notes = _notes(weight)

    def check(self) -> None:
        self._check()

    def run(self, start: int, stop: int) -> Values:
        if self._weight.is_vector:
            return self._rows(start, stop).flatten().numpy()
        return super().run(start, stop)

    def read(self, index: Window) -> torch.Tensor:
        return super().read((*index, 0) if self._weight.is_vector else index)

    @property
    def own_scheme(self) -> Scheme | None:
        # No scheme has groups of columns that are not neighbours.
        return self._weight.scheme if self._weight.columns is None else None

    def _rows(self, first: int, last: int) -> torch.Tensor:
        self.check()
        return values_of(self._weight, first, last)

    @functools.cached_property
    def _file_scales(self) -> OwnScales:
        step = max(1, 2**20 // self.shape[1] // self._weight.row_step) * self._weight.row_step
        starts = range(0, self.shape[0], step)
        parts = [self._weight.coded(at, min(at + step, self.shape[0])) for at in starts]
        scheme = self._weight.scheme
        if parts[0].scale.dim() == 0 or (scheme and isinstance(scheme.granularity, PerTensor)):
            return OwnScales(parts[0].scale, parts[0].zero_point)
        scales = [part.scale for part in parts]
        zeros = [part.zero_point for part in parts]
        return OwnScales(torch.cat(scales), torch.cat(zeros) if zeros[0].dim() else zeros[0])


def values_of(weight: QuantizedWeight, start: int, stop: int) -> torch.Tensor:
    """Return any rows as float32, their columns in order."""
    first = start // weight.row_step * weight.row_step
    last = min(-(-stop // weight.row_step) * weight.row_step, weight.shape[0])
    values = weight.coded(first, last).x_hat[start - first : stop - first]
    if weight.columns is None:
        return values
    return torch.empty_like(values).index_copy(1, weight.columns, values)


class ModelTensors(Catalog):
    """The tensors of a model: each quantized weight under its own name, decoded; all else as the file has it.

    If the file gives the codes the name of the weight, their name here ends in ":codes". A weight that cannot
    be decoded is listed with its problem.
    """

    def __init__(self, catalog: Catalog, weights: Iterable[QuantizedWeight]) -> None:
        # The list of tensors was checked when the file was opened.
        self._data = catalog._data
        self._limits = catalog._limits
        self.file = catalog
        made: dict[str, QuantizedWeight] = {}
        holders: dict[str, str] = {}
        for weight in weights:
            name = weight.name
            if name in catalog and name not in weight.parts:  # an ordinary tensor has that name
                name += DECODED
            made[name] = weight
            for part in weight.parts:
                holders.setdefault(part, name)
        #: By the name here, also where a weight cannot be decoded.
        self.weights: Mapping[str, QuantizedWeight] = MappingProxyType(made)
        #: By a part's name in the file; of experts in one tensor the first.
        self.holders: Mapping[str, str] = MappingProxyType(holders)
        #: None of a decoded weight; in the file's order, each weight before the first of its parts.
        self._in_file = dict(self._listed())
        self._infos = LazyInfos(self._in_file, self.own_info)
        #: Findings on tensors of FP8 that are read as they are: an error where they are codes.
        self._values: dict[str, QuantVizError | None] = {}

    @property
    def model_names(self) -> tuple[str, ...]:
        return tuple(name for name, tensor in self._in_file.items() if tensor not in self.holders)

    def _listed(self) -> Iterator[tuple[str, str | None]]:
        of_first: dict[str, list[str]] = {}
        for name, weight in self.weights.items():
            of_first.setdefault(weight.parts[0], []).append(name)
        for tensor in self.file.names:
            yield from ((name, None) for name in of_first.get(tensor, ()))
            if tensor not in self.weights:
                yield tensor, tensor
            elif self.weights[tensor].layout != "gguf":  # a block of GGUF has scales among its codes
                yield tensor + CODES, tensor

    def own_info(self, name: str) -> TensorInfo:
        tensor = self._in_file[name]
        if tensor is not None:
            return self.file.info(tensor)
        weight = self.weights[name]
        if not weight.problem:
            kind = self.file.info(weight.parts[0]).source_type or weight.layout
            return TensorInfo("float32", weight.own_shape, kind, _notes(weight))
        codes = self.file.info(weight.parts[0])
        return TensorInfo(codes.dtype, weight.shape or codes.shape, weight.layout, problem=weight.problem)

    def orientation(self, name: str) -> Orientation:
        self.info(name)
        tensor = self._in_file[self._known_as(name)]
        # A layout decodes to outputs × inputs.
        return Orientation((0,), "layout") if tensor is None else self.file.orientation(tensor)

    def tensors_of(self, name: str) -> tuple[str, ...]:
        tensor = self._in_file[self._known_as(name)]
        return self.weights[self._known_as(name)].parts if tensor is None else (tensor,)

    def close(self) -> None:
        self.file.close()

    def info(self, name: str) -> TensorInfo:
        return super().info(self._known_as(name))

    def read(self, name: str, index: Index | None = None) -> Loaded:
        name = self._known_as(name)
        if (tensor := self._in_file.get(name, name)) is not None:
            self._check_values(name)
            return self.file.read(tensor, index)
        window, _ = self._window_at(name, index)
        return Loaded(self.stored(name).read(window), self.info(name).notes)

    def cut(self, name: str, index: Index | None = None) -> torch.Tensor:
        name = self._known_as(name)
        if (tensor := self._in_file.get(name, name)) is not None:
            return self.file.cut(tensor, index)
        return self.read(name, index).tensor

    def stored(self, name: str) -> Stored:
        name = self._known_as(name)
        if (tensor := self._in_file.get(name, name)) is not None:
            self._check_values(name)
            return self.file.stored(tensor)
        self._readable(name)
        return DecodedWeight(self.weights[name], self._data.check)

    def raw(self, name: str) -> Raw | None:
        name = self._known_as(name)
        self._check_values(name)
        tensor = self._in_file.get(name, name)
        return None if tensor is None else self.file.raw(tensor)

    def header_texts(self, name: str) -> Mapping[str, str]:
        return self.file.header_texts(self.tensors_of(name)[0])

    def stored_bytes(self, name: str) -> int:
        return sum(map(self.file.stored_bytes, self.tensors_of(name)))

    def expect(self, names: Iterable[str]) -> None:
        self.file.expect(tensor for name in names for tensor in self.tensors_of(name))

    def fetch(self, name: str) -> None:
        """Read all parts of a decoded weight: a remote file sends them now."""
        tensor = self._in_file[self._known_as(name)]
        if tensor is None:
            for part in self.tensors_of(name):
                self.file.cut(part)

    def version_of(self, name: str) -> str:
        return " ".join(dict.fromkeys(map(self.file.version_of, self.tensors_of(name))))

    def _check_values(self, name: str) -> None:
        """Raise a `QuantVizError` where values are codes, see `check_values`."""
        info = self.info(name)
        is_fp8 = info.dtype.startswith("float8") and self.file.of_models
        if not is_fp8 or name.endswith(CODES) or info.problem:
            return
        if name not in self._values:
            try:
                check_values(self.file.stored(name), name, info.dtype)
                self._values[name] = None
            except QuantVizError as problem:
                self._values[name] = problem
        if unread := self._values[name]:
            raise unread.again()

    def _known_as(self, name: str) -> str:
        """Return the name here, which a link may call by an older one."""
        if isinstance(name, str) and name not in self._infos and name.endswith(DECODED):
            weight = name.removesuffix(DECODED)
            return weight if weight in self.weights else name
        return name


def model_tensors(catalog: Catalog) -> ModelTensors:
    """If the configuration beside the file cannot be read, weights that depend on it cannot be decoded."""
    try:
        weights = quantized_weights(catalog)
    except QuantVizError as problem:
        recognized = quantized_weights(catalog, {})
        weights = tuple(
            unreadable(weight.layout, weight.name, weight.parts, problem) for weight in recognized
        )
    return ModelTensors(catalog, weights)


def tensors_near(catalog: Catalog, name: str) -> ModelTensors:
    """Return the tensors of one tensor's module: of a model in many files only those need be opened."""
    every = set(catalog.names)
    prefix = prefix_of(name.removesuffix(CODES).removesuffix(DECODED), every)
    near = [name_near for name_near in catalog.names if prefix_of(name_near, every) == prefix]
    apart = {name_near: catalog.apart[name_near] for name_near in near if name_near in catalog.apart}
    here = {name_near: catalog for name_near in near if name_near not in apart}
    # Without such a tensor, keep all: the error then suggests other names.
    return model_tensors(Joined((catalog,), here, apart) if here else catalog)


def _notes(weight: QuantizedWeight) -> tuple[Note, ...]:
    layout = Note.of(f"layouts.names.{weight.layout}")
    key = "layouts.decoded" if weight.columns is None else "layouts.decoded_apart"
    key = key if weight.scheme else "layouts.decoded_values"
    return (
        Note.of(key, layout=layout, scheme=str(weight.scheme), bits=weight.stored_bits),
        # Here columns are in their own order.
        *(note for note in weight.notes if note.key != "layouts.act_order"),
    )
