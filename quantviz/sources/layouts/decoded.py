"""A file's quantized weights as tensors among its others: the values that their codes stand for.

with open_tensors("model.safetensors") as file:
    catalog = with_weights(file)
    x = catalog.stored("layers.0.q_proj.weight")
    x.own_scales(scheme)
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np
import torch

from quantviz.errors import Note, QuantVizError
from quantviz.schemes.granularity import PerTensor, Shape, Window
from quantviz.schemes.scheme import Scheme
from quantviz.sources.files.catalog import Catalog, Index, Loaded, TensorInfo
from quantviz.sources.files.gguf import GgufCatalog
from quantviz.sources.layouts import QuantizedWeight, quantized_weights
from quantviz.tensors.lazy import OwnScales, Stored, Values

if TYPE_CHECKING:
    from quantviz.sources.files.file_data import FileData

#: How names of tensors end where a file may hold quantized weights; others are not looked at any closer.
_SIGNS = (
    *(".qweight", ".weight_packed", ".weight_scale", ".weight_scale_inv", ".SCB"),
    *(".bitsandbytes__nf4", ".bitsandbytes__fp4"),
)
#: What a weight's name gets where the file calls its codes by it.
_SUFFIX = ":decoded"


class DecodedWeight(Stored):
    """The values of a quantized weight, decoded a part at a time while its file is open.

    `check` raises once the file has changed.
    """

    def __init__(self, weight: QuantizedWeight, check: Callable[[], None]) -> None:
        self._weight, self._check = weight, check

    @property
    def shape(self) -> Shape:
        return self._weight.shape

    @property
    def notes(self) -> tuple[Note, ...]:
        return _notes(self._weight)

    def check(self) -> None:
        self._check()

    def run(self, start: int, stop: int) -> Values:
        columns = self.shape[1]
        first, last = start // columns, -(-stop // columns)
        values: Values = self._rows(first, last).flatten().numpy()[start - first * columns :][: stop - start]
        return np.ascontiguousarray(values)

    def read(self, index: Window) -> torch.Tensor:
        rows, columns = index
        if not isinstance(rows, slice):
            return self._rows(rows, rows + 1)[0, columns]
        first, last, step = rows.indices(self.shape[0])
        return self._rows(first, last)[::step, columns]

    def own_scales(self, scheme: Scheme) -> OwnScales | None:
        own = self._weight.scheme
        return self._scales if scheme.replace(nonfinite=own.nonfinite) == own else None

    def _rows(self, first: int, last: int) -> torch.Tensor:
        self.check()
        step = self._weight.row_step
        start, stop = first // step * step, min(-(-last // step) * step, self.shape[0])
        return self._weight.coded(start, stop).x_hat[first - start : last - start]

    @functools.cached_property
    def _scales(self) -> OwnScales:
        step = max(1, 2**20 // self.shape[1] // self._weight.row_step) * self._weight.row_step
        starts = range(0, self.shape[0], step)
        parts = [self._weight.coded(at, min(at + step, self.shape[0])) for at in starts]
        if parts[0].scale.dim() == 0 or isinstance(self._weight.scheme.granularity, PerTensor):
            return OwnScales(parts[0].scale, parts[0].zero_point)
        scales, zeros = [part.scale for part in parts], [part.zero_point for part in parts]
        return OwnScales(torch.cat(scales), torch.cat(zeros) if zeros[0].dim() else zeros[0])


class WithWeights(Catalog):
    """The tensors of a file, its quantized weights decoded among them.

    A weight has its own name; where the file calls its codes by that, they keep it, and the weight's ends in
    ":decoded". A GGUF file's tensors are decoded as they are.
    """

    def __init__(self, catalog: Catalog, weights: tuple[QuantizedWeight, ...]) -> None:
        # What is listed was checked when the file was opened.
        self._data, self._limits, self._catalog = catalog._data, catalog._limits, catalog
        self._weights = {self._name_of(weight): weight for weight in weights if not weight.problem}
        self._infos = {name: catalog.info(name) for name in catalog.names} | {
            name: TensorInfo("float32", weight.shape, weight.layout, _notes(weight))
            for name, weight in self._weights.items()
        }

    def _name_of(self, weight: QuantizedWeight) -> str:
        taken = weight.name in self._catalog.names and weight.layout != "gguf"
        return weight.name + _SUFFIX if taken else weight.name

    @classmethod
    def recognises(cls, data: FileData) -> bool:
        return False

    def _list(self) -> Mapping[str, TensorInfo]:
        return self._infos

    def close(self) -> None:
        self._catalog.close()

    def read(self, name: str, index: Index | None = None) -> Loaded:
        if name not in self._weights:
            return self._catalog.read(name, index)
        window, _ = self._asked(name, index)
        return Loaded(self.stored(name).read(window), self.info(name).notes)

    def stored(self, name: str) -> Stored:
        if name not in self._weights:
            return self._catalog.stored(name)
        self._readable(name)
        return DecodedWeight(self._weights[name], self._data.check)


def with_weights(catalog: Catalog) -> Catalog:
    """Return a file's tensors with its quantized weights decoded among them; the same catalogue where there
    are none, or the configuration beside it cannot be read.
    """
    if not isinstance(catalog, GgufCatalog) and not any(name.endswith(_SIGNS) for name in catalog.names):
        return catalog
    try:
        weights = quantized_weights(catalog)
    except QuantVizError:
        return catalog
    return WithWeights(catalog, weights) if any(not weight.problem for weight in weights) else catalog


def _notes(weight: QuantizedWeight) -> tuple[Note, ...]:
    layout = Note.of(f"layouts.names.{weight.layout}")
    return (
        Note.of("layouts.decoded", layout=layout, scheme=str(weight.scheme), bits=weight.stored_bits),
        *weight.notes,
    )
