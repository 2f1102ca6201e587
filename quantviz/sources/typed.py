"""Typed tensors as values. Pure Python, no torch."""

from __future__ import annotations

import base64
import binascii
import math
import re
import struct
import zlib
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from quantviz.errors import QuantVizError
from quantviz.schemes.granularity import Shape, flat_index
from quantviz.sources.base import Source, edit_problems
from quantviz.sources.nested_numbers import MOST_TYPED_AXES, flattened
from quantviz.text import text

if TYPE_CHECKING:
    import torch

MOST_ELEMENTS = 512 * 512
MOST_IN_LINK = 256
#: Most elements that are written out in a script; more are read back from the .npz that the page offers.
MOST_WRITTEN_OUT = 4096


@dataclass(frozen=True, eq=False)
class Typed(Source):
    """A tensor as values: hashable, equal bit for bit (so 0.0 is not -0.0, and NaN is itself).

    >>> typed = Typed.of([[1, 2.5], [-0.0, 3]])
    >>> typed.shape, typed.values
    ((2, 2), (1.0, 2.5, -0.0, 3.0))
    """

    #: Last axis fastest; kept as the nearest float32.
    values: tuple[float, ...] = field(repr=False)
    shape: Shape
    id: ClassVar[str] = "typed"
    kind: ClassVar[str] = "typed"
    #: Typed numbers stay in the session, or travel in a link.
    shared: ClassVar[bool] = False

    def __post_init__(self) -> None:
        assert math.prod(self.shape) == len(self.values)
        rounded = array("f", self.values)
        object.__setattr__(self, "values", tuple(rounded))
        object.__setattr__(self, "_bits", rounded.tobytes())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Typed) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Shape, bytes]:
        return self.shape, self.__dict__["_bits"]

    def problems(self) -> Iterator[QuantVizError]:
        if not 1 <= len(self.shape) <= MOST_TYPED_AXES:
            yield QuantVizError("typed.axes", got=len(self.shape), most=MOST_TYPED_AXES)
        if len(self.values) > MOST_ELEMENTS:
            yield QuantVizError("typed.too_many", most=MOST_ELEMENTS)

    def tensor(self) -> torch.Tensor:
        import torch

        return torch.frombuffer(bytearray(self.__dict__["_bits"]), dtype=torch.float32).reshape(self.shape)

    def title(self, language: str) -> str:
        return text("sidebar.typed_name", language)

    def own_edit(self, cell: Shape, value: float | None) -> Source:
        """Return a typed tensor: the text on the screen and the link are of the changed one."""
        if value is None:
            return self
        for problem in edit_problems(self.shape, cell, nearest_float32(value)):
            raise problem
        at = flat_index(cell, self.shape)
        return Typed((*self.values[:at], value, *self.values[at + 1 :]), self.shape)

    @property
    def key(self) -> str:
        return f"{self.id} {hash(self)}"

    @cached_property
    def finite(self) -> bool:
        return all(map(math.isfinite, self.values))

    def link_text(self) -> str:
        return f"{self.id}.{self.to_payload()}"

    def link_problem(self) -> QuantVizError | None:
        too_many = len(self.values) > MOST_IN_LINK
        return QuantVizError("link.typed_too_large", count=len(self.values)) if too_many else None

    def code(self, large: bool, language: str) -> list[str] | None:
        if len(self.values) > MOST_WRITTEN_OUT:
            return None
        # NaN and Inf are no words of Python's own.
        return [*([] if self.finite else ["from math import inf, nan"]), f"x = {self.to_text()}"]

    @classmethod
    def of(cls, nested: Any, *, most: int = MOST_ELEMENTS) -> Typed:
        """Return the tensor in nested lists or tuples of numbers, or in anything that has `tolist()`.

        Raises:
            QuantVizError: Rows are of unequal length, axes more than 4, or items no numbers.
        """
        values, shape = flattened(nested, most)
        return cls(tuple(values), shape)

    def to_payload(self) -> str:
        """Return the shape and the values deflated, bit for bit, in `[A-Za-z0-9._=-]`.

        At most 256 elements, which stay under 2,000 characters; `QuantVizError` above.
        """
        if len(self.values) > MOST_IN_LINK:
            raise QuantVizError("typed.too_large_for_link", got=len(self.values), most=MOST_IN_LINK)
        packed = zlib.compress(struct.pack(f"<{len(self.values)}f", *self.values), 9)
        payload = base64.urlsafe_b64encode(packed).decode("ascii").rstrip("=")
        return f"{'x'.join(map(str, self.shape))}.{payload}"

    @classmethod
    def from_payload(cls, payload: str) -> Typed:
        """Return the tensor; `QuantVizError` for anything that `to_payload` does not write."""
        match = _PAYLOAD.fullmatch(payload)
        shape = tuple(map(int, match[1].split("x"))) if match else ()
        count = math.prod(shape)
        if not match or not 0 < count <= MOST_IN_LINK:
            raise QuantVizError("typed.payload_damaged")
        try:
            packed = base64.b64decode(match[2] + "=" * (-len(match[2]) % 4), altchars=b"-_", validate=True)
            inflate = zlib.decompressobj()
            # One byte more than belongs there is enough to see that there is too much.
            raw = inflate.decompress(packed, 4 * count + 1)
        except (binascii.Error, zlib.error):
            raise QuantVizError("typed.payload_damaged") from None
        if len(raw) != 4 * count or not inflate.eof or inflate.unused_data:
            raise QuantVizError("typed.payload_damaged")
        return cls(struct.unpack(f"<{count}f", raw), shape)

    def to_text(self) -> str:
        """Return the tensor in brackets, each value as short as float32 allows.

        `parse_tensor` reads it back bit for bit.
        """
        rows = [f"[{', '.join(map(shortest, row))}]" for row in _cut(self.values, self.shape[-1])]
        for depth in range(len(self.shape) - 2, -1, -1):
            # Rows of a block are aligned under its first, as torch prints them.
            between = ",\n" + " " * (depth + 1)
            rows = [f"[{between.join(group)}]" for group in _cut(rows, self.shape[depth])]
        return rows[0]


_PAYLOAD = re.compile(r"([1-9]\d{0,2}(?:x[1-9]\d{0,2}){0,3})\.([A-Za-z0-9_-]{1,2000})", re.ASCII)


def nearest_float32(value: float) -> float:
    return array("f", [value])[0]


def shortest(value: float) -> str:
    """Return a float32 in the fewest digits that read back as the same float32."""
    for digits in (1, 3, 6, 7, 8):
        written = f"{value:.{digits}g}"
        if nearest_float32(float(written)) == value:
            # float() puts it the usual way: 7e+02 is 700.0.
            return repr(float(written))
    return repr(float(f"{value:.9g}"))


def _cut(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    return (items[start : start + size] for start in range(0, len(items), size))
