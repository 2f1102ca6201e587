"""A tensor's small picture as SVG: its cells under a scheme, and its values over the comb of codes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise

from quantviz.figures.theme import GREYS, THEMES, rgb

#: Of the picture, and the ruler's part, in units of the SVG.
WIDTH = 96
HEIGHT = 48
_RULER = 44
#: Of a cell, on each side of 0.
SHADES = 4
#: Of the values, and the highest one's number.
BARS = 22
HIGHEST = 9
#: White.
GREY = 7


@dataclass(frozen=True)
class Thumbnail:
    """Whole numbers, so that a thumbnail can be kept as text."""

    #: By rows, from −`SHADES` to `SHADES`; of a picture from 0, black, to `GREY`, white.
    cells: tuple[tuple[int, ...], ...]
    #: Heights up to `HIGHEST`; none without a ruler.
    bars: tuple[int, ...] = ()
    #: In tenths of a unit from the ruler's left end.
    teeth: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()
    grey: bool = False


def thumbnail_svg(thumbnail: Thumbnail, theme: str) -> str:
    parts = [*_cells(thumbnail, theme), *_ruler(thumbnail, theme)]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}">'
    return f"{head}{''.join(parts)}</svg>"


def _cells(thumbnail: Thumbnail, theme: str) -> Iterator[str]:
    cells = thumbnail.cells
    room = WIDTH - _RULER - 6 if thumbnail.bars else WIDTH
    side = min(room / len(cells[0]), HEIGHT / len(cells), HEIGHT / 4)
    top = (HEIGHT - side * len(cells)) / 2
    left = 0.0 if thumbnail.bars else (WIDTH - side * len(cells[0])) / 2
    paths: dict[int, list[str]] = {}
    for i, row in enumerate(cells):
        at = 0
        for shade, run in groupby(row):
            length = sum(1 for _ in run)
            place = f"M{left + side * at:.4g} {top + side * i:.4g}"
            paths.setdefault(shade, []).append(
                f"{place}h{side * length:.4g}v{side:.4g}h{-side * length:.4g}z"
            )
            at += length
    colours = rgb(GREYS, GREY + 1) if thumbnail.grey else rgb(THEMES[theme].values, 2 * SHADES + 1)
    first = 0 if thumbnail.grey else -SHADES
    for shade, drawn in sorted(paths.items()):
        yield f'<path fill="#{bytes(colours[shade - first]).hex()}" d="{"".join(drawn)}"/>'


def _ruler(thumbnail: Thumbnail, theme: str) -> Iterator[str]:
    if not thumbnail.bars:
        return
    own = THEMES[theme]
    left = WIDTH - _RULER
    foot = HEIGHT - 10
    wide = _RULER / len(thumbnail.bars)
    high = (foot - 6) / HIGHEST
    bars = "".join(
        f"M{left + wide * i:.4g} {foot}v{-high * bar:.4g}h{wide * 0.8:.4g}v{high * bar:.4g}z"
        for i, bar in enumerate(thumbnail.bars)
        if bar
    )
    yield f'<path fill="{own.accent}" fill-opacity="0.55" d="{bars}"/>'
    yield f'<path stroke="{own.line}" d="M{left} {HEIGHT - 4}h{_RULER}"/>'
    gaps = [after - before for before, after in pairwise(thumbnail.teeth)]
    half = min(1.5, max(0.35, min(gaps, default=30) / 10 * 0.4))
    teeth = "".join(
        f"M{left + at / 10 - half:.4g} {HEIGHT - 4}l{half:.4g} -6l{half:.4g} 6z" for at in thumbnail.teeth
    )
    yield f'<path fill="{own.muted}" d="{teeth}"/>'
    for at, inwards in zip(thumbnail.ends, (2, -2), strict=False):
        yield (
            f'<path fill="none" stroke="{own.accent}" stroke-width="1.3" '
            f'd="M{left + at / 10 + inwards:.4g} 2h{-inwards}v{HEIGHT - 6}"/>'
        )
