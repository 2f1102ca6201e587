"""Colours of the figures, light and dark.

Each scale is an odd number of colours with straight lines between them: the browser's heatmap, the image of
a larger tensor and the printed values' contrast come from the same ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from quantviz.text import FONT

#: "#rrggbb", evenly spaced from the lowest value to the highest.
Ramp = tuple[str, ...]


@dataclass(frozen=True)
class Theme:
    #: On both sides of 0: negative, neutral, positive.
    values: Ramp
    #: In other hues than values.
    errors: Ramp
    text: str
    #: Row and column numbers, ends of colour bars.
    muted: str
    #: Lines between blocks.
    border: str
    #: The selected cell's line, and a wider one under it: it shows on any colour.
    mark: str
    mark_halo: str
    #: Cells where two results differ.
    lit: str
    #: Of the hover card, and its edge.
    surface: str
    line: str
    #: Parts that can be moved, and values as dots.
    accent: str
    #: Values outside the range.
    clipping: str
    #: A, B, C …: as far apart as may be.
    schemes: Ramp
    font: str = FONT

    def named(self, *names: str) -> dict[str, str]:
        # By their names, for the browser.
        return {name: getattr(self, name) for name in names}


_LIGHT = Theme(
    values=("#006a6e", "#6db3b0", "#f1f0ec", "#dba55a", "#955600"),
    errors=("#1c4da8", "#82a4de", "#f1f0ec", "#e59684", "#b2152b"),
    text="#262730",
    muted="#5c5e68",
    border="rgba(38,39,48,0.62)",
    mark="#111111",
    mark_halo="#ffffff",
    lit="#c2006b",
    surface="#ffffff",
    line="#c9cad1",
    accent="#0f6e84",
    clipping="#b3590b",
    schemes=("#1c5fb4", "#d06a00", "#1f8a4c", "#b5317f", "#6f52c4", "#8a6a1f", "#c62f2f", "#1590a0"),
)
_DARK = Theme(
    values=("#14c8b8", "#0d7672", "#262b35", "#936019", "#f0a020"),
    errors=("#3b85ff", "#24529f", "#262b35", "#a03430", "#ff4a40"),
    text="#fafafa",
    muted="#a6a9b4",
    border="rgba(250,250,250,0.5)",
    mark="#ffffff",
    mark_halo="#000000",
    lit="#ff6ec0",
    surface="#1b1f29",
    line="#474b57",
    accent="#4fc1d8",
    clipping="#f2a44e",
    schemes=("#5b9dff", "#ff9d3d", "#4cc77f", "#f277c0", "#a98bff", "#d9b552", "#ff6f6a", "#46cfe0"),
)
#: By their names in the browser. The neutral colour lies close to the page: white would glare in the dark. A
#: projector washes grey out, so nothing written is grey there.
THEMES: Mapping[str, Theme] = MappingProxyType(
    {
        "light": _LIGHT,
        "dark": _DARK,
        "light_projected": replace(_LIGHT, text="#000000", muted="#000000", border="#000000", line="#000000"),
        "dark_projected": replace(
            _DARK, text="#ffffff", muted="#ffffff", border="#ffffff", surface="#000000", line="#ffffff"
        ),
    }
)


#: A picture's cells: black is black, whatever the page.
GREYS: Ramp = ("#000000", "#808080", "#ffffff")


def one_sided(ramp: Ramp) -> Ramp:
    """Return the half of a ramp that begins neutral, for values of one sign.

    >>> one_sided(("#000000", "#111111", "#222222", "#333333", "#444444"))
    ('#222222', '#333333', '#444444')
    """
    return ramp[len(ramp) // 2 :]


def ramp_between(ramp: Ramp, lo: float, hi: float) -> Ramp:
    """Return a ramp's colours for values from `lo` to `hi`: of one sign its half.

    >>> ramp_between(("#000000", "#111111", "#222222"), -1.0, 0.0)
    ('#000000', '#111111')
    """
    if lo < 0 < hi:
        return ramp
    return one_sided(ramp) if hi > 0 else one_sided(ramp[::-1])[::-1]


def mixed(under: str, over: str, share: float) -> str:
    """Return a colour laid over another.

    >>> mixed("#000000", "#ffffff", 0.5)
    '#808080'
    """
    pairs = zip(bytes.fromhex(under[1:]), bytes.fromhex(over[1:]), strict=True)
    return "#" + "".join(f"{round(a + share * (b - a)):02x}" for a, b in pairs)


def translucent(colour: str, opacity: float) -> str:
    """Return a colour "#rrggbb" with an opacity.

    >>> translucent("#ff8000", 0.5)
    'rgba(255,128,0,0.5)'
    """
    return f"rgba({','.join(map(str, bytes.fromhex(colour[1:])))},{opacity:g})"


def stops(ramp: Ramp, middle: float = 0.5) -> tuple[float, ...]:
    """Return where along the scale (0 to 1) each colour stands, the middle one at `middle`.

    >>> stops(("#000000", "#222222", "#444444", "#666666", "#888888"), 0.6)
    (0.0, 0.3, 0.6, 0.8, 1.0)
    """
    half = len(ramp) // 2
    return tuple(
        middle * i / half if i <= half else middle + (1 - middle) * (i - half) / half
        for i in range(len(ramp))
    )


def rgb(ramp: Ramp, count: int, middle: float = 0.5) -> npt.NDArray[np.uint8]:
    """Return `count` colours along the ramp, as (count, 3) bytes.

    >>> rgb(("#000000", "#000000", "#0000ff"), 3).tolist()
    [[0, 0, 0], [0, 0, 0], [0, 0, 255]]
    """
    colours = np.array([list(bytes.fromhex(colour[1:])) for colour in ramp], dtype=np.float64)
    places = np.linspace(0, 1, count)
    channels = [np.interp(places, stops(ramp, middle), colours[:, channel]) for channel in range(3)]
    return np.rint(np.stack(channels, axis=1)).astype(np.uint8)
