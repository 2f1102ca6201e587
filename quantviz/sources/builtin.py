"""Built-in tensors: small ones of literals that a student can check by hand, a picture, a real weight.

A built-in tensor is added here: one entry in `BUILTINS` and its words under
`[sources.builtin.<name>]` in each language.
"""

from __future__ import annotations

import functools
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


@dataclass(frozen=True)
class BuiltinTensor:
    """One built-in tensor: its shape now, its values on demand."""

    shape: Shape
    #: The values as nested tuples, for tensors that are literals.
    literal: Any = None
    #: The file of `data/` with the values of any other; its suffix is their dtype as numpy spells it.
    file: str = ""
    #: The number that those are divided by.
    unit: int = 1
    #: Whether it is a picture, and shown in grey.
    picture: bool = False

    @property
    def values(self) -> npt.NDArray[np.float32]:
        """Return the values, without torch."""
        import numpy as np

        if not self.file:
            return np.array(self.literal, np.float32)
        path = Path(__file__).parent / "data" / self.file
        return (np.fromfile(path, path.suffix[1:]) / self.unit).astype(np.float32).reshape(self.shape)


def _of(literal: Any) -> BuiltinTensor:
    shape = []
    level = literal
    while isinstance(level, tuple):
        shape.append(len(level))
        level = level[0]
    return BuiltinTensor(tuple(shape), literal)


# ---- literals -----------------------------------------------------------------------------------

# Column 5 is about ten times louder than the rest. Under int4, symmetric, one scale for all, the
# scale is 23.02 / 7 = 3.289 (the largest value is at (6, 5)), so that all but three of the 56 quiet
# values round to 0. The cell to look at is (2, 3): -1.35 / 3.289 = -0.41 → 0 → 0.00, error +1.35.
_LOUD_COLUMN = (
    (1.79, -1.63, 0.11, -0.36, -0.74, 5.26, -0.10, -0.07),
    (-0.01, -0.22, 0.95, 1.91, 0.82, -11.95, 0.32, 1.06),
    (1.16, -0.98, 0.15, -1.35, 0.76, 17.33, -0.22, 1.44),
    (-0.13, 0.39, -0.28, -0.45, 1.64, -4.94, 0.61, -0.77),
    (-0.49, 1.40, 1.17, 0.77, 0.65, 14.68, -0.60, -0.65),
    (-1.32, -0.30, 1.02, -0.22, 0.61, -18.92, -0.32, 1.92),
    (-1.00, 1.27, 1.03, 1.36, 0.16, 23.02, 0.44, 1.18),
    (0.35, 0.05, -0.37, 0.42, -1.24, 13.08, 0.22, -1.56),
)

_COURSE_3X3 = ((191.6, -13.5, 728.6), (92.14, 295.5, -184.0), (0.0, 684.6, 245.5))

# torch.manual_seed(0); torch.randn(3, 3): the float32 values in full, so that no generator is needed to have
# them.
_COURSE_RANDN_3X3 = (
    (1.5409960746765137, -0.293428897857666, -2.1787893772125244),
    (0.5684312582015991, -1.0845223665237427, -1.3985954523086548),
    (0.40334683656692505, 0.8380263447761536, -0.7192575931549072),
)

# The notebooks drew these three without a seed; they are known as printed, to four decimals.
_COURSE_4X4_A = (
    (2.2076, -1.7764, -0.9115, -0.0222),
    (0.2167, -1.7484, -1.499, 0.71),
    (0.8893, 0.9245, -0.8773, 0.2604),
    (-1.0853, 0.8478, -0.3211, -0.5872),
)
_COURSE_4X4_B = (
    (-0.8507, -0.2863, -0.0977, -0.6233),
    (-0.4456, 0.1131, 1.0762, 0.6507),
    (0.3937, -0.5725, 0.2385, -1.1075),
    (-1.4498, 1.4015, 0.9169, 1.2282),
)
_COURSE_4X4_C = (
    (1.7235, 0.4838, 0.1597, 1.2745),
    (-0.3974, 0.0629, -1.5674, -0.4455),
    (1.3539, 1.3741, 0.8218, -1.8537),
    (0.322, -1.9573, 0.9014, 0.7699),
)

_COURSE_W8A32 = ((-2.0, -1.13, 0.42), (-1.51, 0.25, 1.62), (0.23, 1.35, 2.15))

# Under int4, symmetric, the outlier sets the scale to 24.6 / 7 = 3.514: 25 of the other 31 round to 0.
_OUTLIER_ROW = (
    (
        *(-1.80, -0.25, 0.80, -0.20, 0.16, -1.55, -0.26, -0.41, 0.97, 0.17, -0.02, -0.76, -0.87, -0.01, 1.37),
        *(-1.98, -2.93, 2.08, 1.69, 24.60, 0.41, -0.40, -0.35, -1.23, 0.66, -0.19, -2.00, -0.51, -0.55),
        *(-0.66, 2.06, 1.17),
    ),
)
_COURSE_VECTOR = (5.47, 3.08, -7.59, 0.0, -1.95, -4.57, 10.8)


BUILTINS: Mapping[str, BuiltinTensor] = MappingProxyType(
    {
        "loud_column": _of(_LOUD_COLUMN),
        "course_3x3": _of(_COURSE_3X3),
        "course_randn_3x3": _of(_COURSE_RANDN_3X3),
        "course_4x4_a": _of(_COURSE_4X4_A),
        "course_4x4_b": _of(_COURSE_4X4_B),
        "course_4x4_c": _of(_COURSE_4X4_C),
        "course_w8a32": _of(_COURSE_W8A32),
        "course_vector": _of(_COURSE_VECTOR),
        "picture": BuiltinTensor((64, 64), file="picture.u1", unit=255, picture=True),
        "real_weight": BuiltinTensor((64, 64), file="real_weight.f4"),
        "landscape": BuiltinTensor((128, 192), file="landscape.u1", picture=True),
        "outlier_row": _of(_OUTLIER_ROW),
    }
)


@dataclass(frozen=True)
class Builtin(Source):
    """The built-in tensor called `name`, one of `BUILTINS`.

    >>> Builtin("course_vector").shape
    (7,)
    >>> Builtin("loud_column").tensor()[2, 3]
    tensor(-1.3500)
    >>> next(Builtin("nothing").problems()).key
    'source.unknown_builtin'
    """

    name: str
    id: ClassVar[str] = "builtin"
    kind: ClassVar[str] = "course"

    @property
    def shape(self) -> Shape:
        return self._entry.shape

    @property
    def literal(self) -> Any:
        """Return the values as nested tuples, or None for a tensor that is stored."""
        return self._entry.literal

    def problems(self) -> Iterator[QuantVizError]:
        if self.name not in BUILTINS:
            yield QuantVizError("source.unknown_builtin", got=self.name, known=", ".join(BUILTINS))

    def tensor(self) -> torch.Tensor:
        """Return the tensor, float32; a fresh one at each call."""
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
