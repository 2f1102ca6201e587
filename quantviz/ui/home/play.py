"""The toys of the front door: a picture, a row of weights, and an adder's sums, at few bits.

The browser quantizes the first two by the schemes' own arithmetic (`quantviz.compiled.javascript`), so that
all of it follows the hand; the sums are measured once by the server. Nothing that is drawn at first needs
torch, but where the programs were never written before.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from quantviz.browser.packing import pack
from quantviz.compiled.kept_programs import kept_programs
from quantviz.figures.numbers import WRITING
from quantviz.figures.theme import THEMES, rgb
from quantviz.lab.state import VERSION
from quantviz.schemes.granularity import Shape
from quantviz.schemes.level_count import level_count, tooth_count
from quantviz.schemes.scheme import Scheme
from quantviz.sources import Builtin, write_source
from quantviz.sources.landscape import landscape
from quantviz.text import templates, text
from quantviz.ui.shell.imports import frames
from quantviz.ui.shell.startup import run_queue

if TYPE_CHECKING:
    import numpy as np

#: Number of shades for errors, from the lowest to the highest.
_SHADES = 257
#: Bytes of a value before it is quantized.
_BEFORE = 4


@dataclass(frozen=True)
class Toy:
    """A tensor to play with."""

    source: Builtin
    #: From the fewest bits to the most.
    schemes: tuple[Scheme, ...]
    #: The number of bits that shows the effect of rounding best.
    telling: int
    #: The cell that is explained at first.
    cell: Shape

    def sizes(self) -> tuple[tuple[float, float], ...]:
        """Return the bytes of the tensor before and after, for each scheme: codes, and one scale."""
        cells = math.prod(self.source.shape)
        return tuple(
            (_BEFORE * cells, (scheme.number_format.bits * cells + scheme.arithmetic.scale_bits) / 8)
            for scheme in self.schemes
        )


#: The toys, by the switch's name for each.
TOYS: Mapping[str, Toy] = MappingProxyType(
    {
        "picture": Toy(
            Builtin("landscape"), tuple(Scheme(f"uint{bits}") for bits in range(1, 9)), 3, (39, 145)
        ),
        # A sign and no size is no number: symmetric integers begin at 2 bits.
        "row": Toy(Builtin("outlier_row"), tuple(Scheme(f"int{bits}") for bits in range(2, 9)), 4, (0, 5)),
    }
)


#: The adder's bits from the fewest to the most, and those that show best what rounding costs.
SUM_BITS = range(2, 9)
_TELLING_SUMS = 3


@dataclass(frozen=True)
class FieldOfSums:
    """An adder's answers with some bits a weight, a scale for each row; 16 bits are its own."""

    bits: int
    #: Sums that are right, of so many.
    right: int
    count: int
    #: Bytes of the linear layers' weights before and after.
    size: tuple[float, float]
    #: The sums of the field: both numbers, and the answer.
    sums: tuple[tuple[int, int, str], ...]


def fields_of_sums() -> tuple[FieldOfSums, ...]:
    """Return the adder's answers by bits: two seconds of one core."""
    from quantviz.models.character_model import ADDER
    from quantviz.models.model_schemes import LayerSchemes, scheme_of_bits
    from quantviz.models.running import run_built_in

    found = []
    for bits in (*SUM_BITS, 16):
        run = run_built_in(ADDER, LayerSchemes(scheme_of_bits(bits)))
        assert run.sums
        cells = sum(layer.weight.numel() for layer in run.quantized.layers.values())
        field = tuple((each.left, each.right, each.answer) for each in run.sums.field())
        size = (_BEFORE * cells, run.bits * cells / 8)
        found.append(FieldOfSums(bits, run.sums.right, len(run.sums.every), size, field))
    return tuple(found)


def _import_torch() -> None:
    """Import torch before the programs are written, and let another run have its turn meanwhile."""
    frames().end()
    with run_queue().leave():
        import torch  # noqa: F401


@cache
def _arrays() -> Mapping[str, np.ndarray[Any, Any]]:
    import numpy as np

    row = np.array(TOYS["row"].source.literal, np.float32).ravel()
    return {"picture": landscape().ravel(), "row": row}


@cache
def play_data(language: str, theme: str, sums: tuple[FieldOfSums, ...] = ()) -> bytes:
    """Return the component's data, in a language and for one of `THEMES`, with the adder's answers as far as
    they are known.
    """
    colours = THEMES[theme]
    other = THEMES["dark"]
    programs = kept_programs([scheme for toy in TOYS.values() for scheme in toy.schemes], _import_torch)
    toys = []
    first = 0
    for name, toy in TOYS.items():
        toys.append(
            {
                "name": name,
                "label": text(f"home.toys.{name}", language),
                "shape": toy.source.shape,
                "source": write_source(toy.source),
                "cell": toy.cell,
                "telling": toy.telling,
                "variants": [
                    {
                        "program": first + i,
                        "scheme": str(scheme),
                        "bits": scheme.number_format.bits,
                        "levels": _levels(scheme, language),
                        "size": _size(before, after, language),
                    }
                    for i, (scheme, (before, after)) in enumerate(zip(toy.schemes, toy.sizes(), strict=True))
                ],
            }
        )
        first += len(toy.schemes)
    header = {
        **programs,
        "language": language,
        "link_version": VERSION,
        "writing": asdict(WRITING),
        "toys": [*toys, _toy_of_sums(language)],
        "sums": [
            asdict(each)
            | {"right": f"{each.right:,}", "count": f"{each.count:,}", "size": _size(*each.size, language)}
            for each in sums
        ],
        "words": dict(templates("home", language)),
        "colors": {
            **colours.named("text", "muted", "line", "surface", "font"),
            "tooth": colours.muted,
            "handle": colours.accent,
            "dot": colours.accent,
            "over": colours.errors[-1],
            "under": colours.errors[0],
            "wrong": colours.errors[-2],
            "right": colours.errors[2],
            # On a picture, which is as bright on any page.
            "mark": other.errors[-1],
        },
    }
    return pack(header, {**_arrays(), "errors": rgb(colours.errors, _SHADES).ravel()})


def _toy_of_sums(language: str) -> dict[str, Any]:
    return {
        "name": "sums",
        "label": text("home.toys.sums", language),
        "telling": _TELLING_SUMS,
        "variants": [
            {"bits": bits, "levels": _levels(Scheme(f"int{bits}"), language), "size": ""} for bits in SUM_BITS
        ],
    }


def _levels(scheme: Scheme, language: str) -> str:
    """Return the number of levels that occur, and of the teeth that are drawn where some never do."""
    levels = level_count(scheme)
    teeth = tooth_count(scheme)
    return str(levels) if levels == teeth else text("home.of_levels", language, levels=levels, teeth=teeth)


def _size(before: float, after: float, language: str) -> str:
    return text("home.size", language, before=_bytes(before), after=_bytes(after))


def _bytes(count: float) -> str:
    """Return a number of bytes as it is read.

    >>> _bytes(98304.0), _bytes(14.0), _bytes(401_408.0)
    ('98 kB', '14 B', '400 kB')
    """
    return f"{float(f'{count / 1000:.2g}'):g} kB" if count >= 1000 else f"{math.ceil(count)} B"
