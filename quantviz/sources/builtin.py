"""Built-in tensors. One is added in `data/builtin.toml`, with its words under `[sources.builtin.<name>]` in
each language.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from quantviz.errors import QuantVizError
from quantviz.schemes.granularity import Shape
from quantviz.sources.base import Source
from quantviz.text import text

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import torch


_DATA = Path(__file__).parent / "data"


@dataclass(frozen=True)
class BuiltinTensor:
    shape: Shape
    literal: list[Any] | None = None
    #: The file of `data/` with the values; its suffix is their dtype as numpy spells it.
    file: str = ""
    #: The number that those are divided by.
    unit: int = 1
    picture: bool = False

    @property
    def values(self) -> npt.NDArray[np.float32]:
        import numpy as np

        if self.literal is not None:
            return np.array(self.literal, np.float32)
        raw = np.fromfile(_DATA / self.file, self.file.rpartition(".")[2])
        return (raw / self.unit).astype(np.float32).reshape(self.shape)


def _read() -> Iterator[tuple[str, BuiltinTensor]]:
    for name, each in tomllib.loads((_DATA / "builtin.toml").read_text(encoding="utf-8")).items():
        yield name, BuiltinTensor(tuple(each.pop("shape")), each.pop("values", None), **each)


BUILTINS: Mapping[str, BuiltinTensor] = MappingProxyType(dict(_read()))


@dataclass(frozen=True)
class Builtin(Source):
    name: str
    id: ClassVar[str] = "builtin"
    kind: ClassVar[str] = "course"

    @property
    def shape(self) -> Shape:
        return self._entry.shape

    def problems(self) -> Iterator[QuantVizError]:
        if self.name not in BUILTINS:
            yield QuantVizError("source.unknown_builtin", got=self.name, known=", ".join(BUILTINS))

    def tensor(self) -> torch.Tensor:
        import torch

        return torch.from_numpy(self._entry.values)

    def title(self, language: str) -> str:
        return text(f"sources.builtin.{self.name}.name", language)

    @property
    def stem(self) -> str:
        return self.name

    @property
    def picture(self) -> bool:
        return self._entry.picture

    @functools.cached_property
    def _entry(self) -> BuiltinTensor:
        for problem in self.problems():
            raise problem
        return BUILTINS[self.name]
