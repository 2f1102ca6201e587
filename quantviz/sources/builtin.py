"""Built-in tensors: small ones of literals that a student can check by hand, a picture, a real weight.

A built-in tensor is added here: one entry in `BUILTINS` and its words under
`[sources.builtin.<name>]` in each language.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from quantviz.errors import QuantVizError
from quantviz.schemes.granularity import Shape
from quantviz.sources.base import Source
from quantviz.sources.landscape import SHAPE as LANDSCAPE_SHAPE
from quantviz.sources.landscape import landscape
from quantviz.text import text

if TYPE_CHECKING:
    import torch

#: Side of the picture and of the slice of a real weight.
_SIDE = 64


@dataclass(frozen=True)
class BuiltinTensor:
    """One built-in tensor: its shape now, its values on demand."""

    shape: Shape
    #: The values as nested tuples, for tensors that are literals.
    literal: Any = None
    #: Makes the tensor, for those that are not.
    make: Callable[[], torch.Tensor] | None = None
    #: Whether it is a picture, and shown in grey.
    picture: bool = False


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


# ---- computed -----------------------------------------------------------------------------------


def _picture() -> torch.Tensor:
    """Return a shaded ball over a table before a soft wall, grey levels k/255 in [0, 1].

    Large smooth gradients show banding; the grain of the table dithers it away.
    """
    import torch

    place = (torch.arange(_SIDE, dtype=torch.float64) + 0.5) / _SIDE
    down, across = torch.meshgrid(place, place, indexing="ij")
    wall = 0.30 + 0.55 * (1 - down) * (0.55 + 0.45 * across)
    grain = 0.02 * torch.sin(37 * across + 9 * torch.sin(5 * down)) + 0.015 * torch.sin(
        61 * down + 23 * across
    )
    table = 0.38 + 0.35 * down + grain
    shadow = 0.55 * torch.exp(-(((across - 0.60) / 0.26) ** 2) - ((down - 0.80) / 0.055) ** 2)
    scene = torch.where(down < 0.66, wall, table * (1 - shadow))

    right = (across - 0.47) / 0.28
    below = (down - 0.50) / 0.28
    flat = right**2 + below**2
    towards = (1 - flat).clamp(min=0).sqrt()
    # Light falls from the upper left, a little from the front; the table lights the ball's lower edge.
    lit = (-0.50 * right - 0.58 * below + 0.64 * towards).clamp(min=0)
    ball = 0.10 + 0.72 * lit + 0.55 * lit**24 + 0.10 * (below * (1 - towards)).clamp(min=0)
    # The rim is blended over two pixels.
    cover = ((1 - flat.sqrt()) * 0.28 * _SIDE / 1.5 + 0.5).clamp(0, 1)
    grey = (scene * (1 - cover) + ball * cover).clamp(0, 1)
    return (torch.round(grey * 255) / 255).to(torch.float32)


def _landscape() -> torch.Tensor:
    """Return a lake at sunset, grey levels from 0 to 255."""
    import torch

    return torch.from_numpy(landscape()).to(torch.float32)


def _real_weight() -> torch.Tensor:
    """Return the stored slice of a real weight; `data/README.md` has its origin."""
    import torch

    raw = (Path(__file__).parent / "data" / "real_weight.f32").read_bytes()
    return torch.frombuffer(bytearray(raw), dtype=torch.float32).reshape(_SIDE, _SIDE)


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
        "picture": BuiltinTensor((_SIDE, _SIDE), make=_picture, picture=True),
        "real_weight": BuiltinTensor((_SIDE, _SIDE), make=_real_weight),
        "landscape": BuiltinTensor(LANDSCAPE_SHAPE, make=_landscape, picture=True),
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
        """Return the values as nested tuples, or None for a tensor that is computed or stored."""
        return self._entry.literal

    def problems(self) -> Iterator[QuantVizError]:
        if self.name not in BUILTINS:
            yield QuantVizError("source.unknown_builtin", got=self.name, known=", ".join(BUILTINS))

    def tensor(self) -> torch.Tensor:
        """Return the tensor, float32; a fresh one at each call."""
        import torch

        entry = self._entry
        tensor = entry.make() if entry.make else torch.tensor(entry.literal, dtype=torch.float32)
        assert tuple(tensor.shape) == entry.shape
        return tensor

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
