"""A lake at sunset, computed: a picture of soft gradients, in which few bits show as bands.

Made with numpy alone, so that a page can show it before torch comes in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.float64]

#: Rows and columns.
SHAPE = (128, 192)
#: The top of the water, from the top; the place of the sun, across and down. The height is 1.
_HORIZON = 0.64
_SUN = (0.98, 0.40)
#: The width over which an edge is blended: about one and a half pixels.
_SOFT = 1.4 / SHAPE[0]
#: The balls that make up the tree's crown: across, down, radius.
_CROWN = (
    (0.150, 0.420, 0.105),
    (0.075, 0.475, 0.075),
    (0.235, 0.460, 0.085),
    (0.170, 0.345, 0.075),
    (0.280, 0.530, 0.050),
    (0.030, 0.550, 0.050),
)


def landscape() -> npt.NDArray[np.uint8]:
    """Return the picture as grey levels from 0 to 255, (128, 192); the sun is 255.

    >>> landscape().shape, int(landscape().max())
    ((128, 192), 255)
    """
    import numpy as np

    rows, cols = SHAPE
    down, across = np.meshgrid((np.arange(rows) + 0.5) / rows, (np.arange(cols) + 0.5) / rows, indexing="ij")
    scene = _sky(down, across)
    scene = _mountains(scene, down, across)
    scene = _water(scene, down, across)
    scene = _shaded(scene, down, _bank(across), 0.07, 0.015, 0.15)
    scene = _tree(scene, down, across)
    return np.rint(255 * np.clip(scene, 0, 1)).astype(np.uint8)


def _blend(distance: Array, width: float = _SOFT) -> Array:
    """Return 1 well inside of an edge, 0 well outside, and a smooth way between."""
    import numpy as np

    t = np.clip(distance / width + 0.5, 0, 1)
    blended: Array = t * t * (3 - 2 * t)
    return blended


def _shaded(scene: Array, down: Array, ridge: Array, top: float, foot: float, depth: float) -> Array:
    """Put land into the scene below `ridge`, with a shade at its top, another at its foot."""
    import numpy as np

    cover = _blend(down - ridge)
    t = np.clip((down - ridge) / depth, 0, 1)
    shaded: Array = scene * (1 - cover) + (top * (1 - t) + foot * t) * cover
    return shaded


def _sky(down: Array, across: Array) -> Array:
    """Return the sky: dark above, bright at the horizon and around the sun, with two thin clouds."""
    import numpy as np

    away = np.hypot(across - _SUN[0], down - _SUN[1])
    sky = 0.20 + 0.46 * (down / _HORIZON) ** 1.5 + 0.42 * np.exp(-((away / 0.30) ** 1.3))
    for height, bend, turn, thick, bright in (
        (0.20, 0.020, 3.1, 0.035, 0.10),
        (0.29, 0.015, 4.0, 0.018, 0.09),
    ):
        band = np.exp(-(((down - height - bend * np.sin(turn * across + 1)) / thick) ** 2))
        sky = sky + bright * band * (0.5 + 0.5 * np.sin(1.4 * turn * across + 0.6))
    disc = _blend(0.078 - away)
    blended: Array = sky * (1 - disc) + disc
    return blended


def _mountains(scene: Array, down: Array, across: Array) -> Array:
    """Put three ridges into the scene, far to near, with mist at their feet."""
    import numpy as np

    peak = (
        0.52
        - 0.20 * np.exp(-(((across - 0.36) / 0.20) ** 2))
        - 0.07 * np.exp(-(((across - 0.72) / 0.10) ** 2))
    )
    far = peak + 0.016 * np.abs(np.sin(17 * across + 0.5)) + 0.008 * np.sin(41 * across)
    scene = _shaded(scene, down, far, 0.36, 0.64, 0.30)
    near = 0.575 + 0.035 * np.sin(4.3 * across + 2.2) + 0.015 * np.sin(11 * across + 0.3)
    scene = _shaded(scene, down, near + 0.006 * np.sin(29 * across + 1), 0.27, 0.52, 0.16)
    hill = 0.66 + 0.05 * np.sin(2.4 * across + 0.2) + 0.008 * np.sin(19 * across + 0.9)
    return _shaded(scene, down, hill, 0.13, 0.24, 0.12)


def _water(scene: Array, down: Array, across: Array) -> Array:
    """Put the lake into the scene: darker towards us, rippled, with a path of light under the sun."""
    import numpy as np

    below = np.clip(down - _HORIZON, 0, None)
    depth = below / (1 - _HORIZON)
    aside = across - _SUN[0]
    water = 0.60 - 0.48 * depth**0.8 + 0.20 * np.exp(-((aside / 0.34) ** 2)) * (1 - depth)
    glitter = 0.55 + 0.45 * np.sin(2 * np.pi * 26 * depth**0.75 + 4 * np.sin(9 * across))
    path = np.exp(-(((aside - 0.02 * np.sin(60 * down)) / (0.05 + 0.10 * depth)) ** 2)) * glitter
    ripple = 0.03 * np.sin(150 * below**0.7 + 3 * np.sin(5 * across)) * below**0.3
    wet = _blend(down - _HORIZON - 0.012 * np.sin(6 * across + 1))
    mixed: Array = scene * (1 - wet) + (water + 0.34 * path * (1 - 0.45 * depth) + ripple) * wet
    return mixed


def _bank(across: Array) -> Array:
    """Return the upper edge of the near bank, with its grass."""
    import numpy as np

    grass = 0.006 * np.sin(90 * across) + 0.004 * np.sin(151 * across + 1)
    edge: Array = 0.965 - 0.16 * np.exp(-((across / 0.42) ** 2)) + grass
    return edge


def _tree(scene: Array, down: Array, across: Array) -> Array:
    import numpy as np

    half = 0.0075 + 0.010 * np.clip((down - 0.62) / 0.25, 0, 1)
    trunk = _blend(half - np.abs(across - 0.155 - 0.012 * np.sin(6 * down)))
    trunk = trunk * _blend(down - 0.46) * _blend(0.92 - down)
    crown: Any = 0.0
    for x, y, radius in _CROWN:
        turn = np.arctan2(down - y, across - x)
        rough = radius * (1 + 0.10 * np.sin(9 * turn + 40 * x) + 0.05 * np.sin(23 * turn))
        crown = np.maximum(crown, _blend(rough - np.hypot(across - x, (down - y) * 1.15), 1.2 * _SOFT))
    leaves = np.clip(0.10 + 0.05 * np.sin(70 * across + 20 * np.sin(33 * down)) * np.sin(61 * down), 0, 1)
    scene = scene * (1 - trunk) + 0.05 * trunk
    mixed: Array = scene * (1 - crown) + leaves * crown
    return mixed
