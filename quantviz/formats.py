"""Number formats: what one code can represent.

A format is data. `kind` names the grid arithmetic in `quantizer.py` that rounds to it;
integer grids are the first kind, float grids and codebooks are further ones.
A format is added here: one entry in `FORMATS` and its words in each language.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from quantviz.errors import QuantVizError


@dataclass(frozen=True)
class NumberFormat:
    """An element format.

    >>> FORMATS["int4"].code_min, FORMATS["int4"].code_max
    (-8, 7)
    """

    #: Permanent id, lower_snake: it is in people's links.
    id: str
    #: Which grid arithmetic rounds to it: "integer".
    kind: str
    #: Bits of one code.
    bits: int
    #: Whether there are negative values.
    signed: bool
    #: Name of the torch dtype that holds one code an element, never packed.
    code_dtype: str

    @property
    def code_min(self) -> int:
        """Smallest code."""
        return -(1 << (self.bits - 1)) if self.signed else 0

    @property
    def code_max(self) -> int:
        """Largest code."""
        return (1 << (self.bits - 1)) - 1 if self.signed else (1 << self.bits) - 1

    @property
    def levels(self) -> int:
        """How many codes there are."""
        return 1 << self.bits


def _integer(bits: int, signed: bool) -> NumberFormat:
    # torch.uint16 has no arithmetic, hence int32 for its codes.
    wide = "int16" if signed else "int32"
    narrow = "int8" if signed else "uint8"
    name = f"int{bits}" if signed else f"uint{bits}"
    return NumberFormat(name, "integer", bits, signed, narrow if bits <= 8 else wide)


_ALL = tuple(_integer(bits, signed) for bits in (2, 3, 4, 5, 6, 7, 8, 16) for signed in (True, False))

#: Every element format by id.
FORMATS: Mapping[str, NumberFormat] = MappingProxyType({each.id: each for each in _ALL})


def find_format(format_id: str) -> NumberFormat:
    """The format called `format_id`; `QuantVizError` lists the known ones.

    >>> find_format("uint4").code_max
    15
    """
    if isinstance(format_id, str) and format_id in FORMATS:
        return FORMATS[format_id]
    raise QuantVizError("unknown_format", got=format_id, known=", ".join(FORMATS))
