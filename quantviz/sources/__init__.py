"""Where tensors come from.

A source is a small frozen value that knows its shape at once and its tensor on demand, so that a
link, a cache key and a page can hold it without torch. A source is added here: one class in
`SOURCES` and its words under `[sources.<id>]` in each language. What a person types (`typed.py`)
or uploads (`image.py`, `files/`) is a source too, but has no short text form.

>>> parse_source("normal(rows=8,cols=4,seed=7)")
Normal(rows=8, cols=4, seed=7, mean=0.0, std=1.0)
>>> write_source(parse_source("normal(rows=8,cols=4,seed=7)"))
'normal(rows=8,cols=4,seed=7)'
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, cast

from quantviz import textform
from quantviz.errors import QuantVizError
from quantviz.granularity import Shape
from quantviz.sources.builtin import Builtin as Builtin
from quantviz.sources.local import LocalTensor as LocalTensor
from quantviz.sources.matrix import AsMatrix as AsMatrix
from quantviz.sources.random import AllPositive as AllPositive
from quantviz.sources.random import Bimodal as Bimodal
from quantviz.sources.random import Laplace as Laplace
from quantviz.sources.random import LoudColumns as LoudColumns
from quantviz.sources.random import LoudRows as LoudRows
from quantviz.sources.random import Normal as Normal
from quantviz.sources.random import OneOutlier as OneOutlier
from quantviz.sources.random import StudentT as StudentT
from quantviz.sources.random import Uniform as Uniform

if TYPE_CHECKING:
    import torch


class Source(Protocol):
    """What every source answers. Only `tensor()` needs torch."""

    id: ClassVar[str]

    @property
    def shape(self) -> Shape:
        """The tensor's shape, known without making the tensor."""

    def problems(self) -> Iterator[QuantVizError]:
        """What keeps it from giving a tensor."""

    def tensor(self) -> torch.Tensor:
        """The tensor, float32 of `shape`, the same at each call; the first of `problems()` is raised."""


#: Every source that is written as its id and fields, by id, in the order a page lists them.
SOURCES: Mapping[str, type[Any]] = MappingProxyType(
    {each.id: each for each in (Builtin, Normal, Laplace, Uniform, StudentT, Bimodal, LoudRows, LoudColumns, OneOutlier, AllPositive)}
)


def parse_source(form: str) -> Source:
    """The source written as `form`; `QuantVizError` for an unknown id, a bad field or an impossible value."""
    head, _, payload = form.partition(".")
    if head == LocalTensor.id:
        source: Source = LocalTensor.from_payload(payload)
    else:
        source = cast(Source, textform.read(form, SOURCES, "source.unknown"))
    for problem in source.problems():
        raise problem
    return source


def write_source(source: Source) -> str:
    """The text form of a `LocalTensor` or a source of `SOURCES`, of these with only what differs from the defaults."""
    return f"{source.id}.{source.to_payload()}" if isinstance(source, LocalTensor) else textform.write(source)
