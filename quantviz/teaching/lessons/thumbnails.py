"""A small picture of each lesson, drawn from the tensor of one of its steps.

`thumbnails.json` has their data, so that a list of lessons needs no tensor; `python -m` of this writes it.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from quantviz.figures.thumbnail import BARS, GREY, HIGHEST, SHADES, Thumbnail
from quantviz.teaching.lessons import sound_lessons
from quantviz.teaching.lessons.formulas import HERE, Scene
from quantviz.teaching.lessons.model import Lesson

if TYPE_CHECKING:
    import torch

_FILE = Path(__file__).with_name("thumbnails.json")
#: A lesson's most telling step, if it is not the first, from 1.
STEPS: Mapping[str, int] = MappingProxyType(
    {
        "fewer_bits": 2,
        "zero_point_out_of_range": 4,
        "rounding_against_clipping": 3,
        "per_channel": 3,
        "per_group": 2,
        "w8a32": 5,
        "outliers": 3,
        "engines_disagree": 3,
    }
)
_SIDE = 8
_PICTURE = (32, 48)
#: Width of the ruler in tenths of a unit.
_RULER = 440


@cache
def thumbnails() -> Mapping[str, Thumbnail]:
    kept = json.loads(_FILE.read_text(encoding="utf-8"))
    return MappingProxyType({name: _read(each) for name, each in kept.items()})


def _read(kept: Mapping[str, Any]) -> Thumbnail:
    parts = {name: tuple(kept[name]) for name in ("bars", "teeth", "ends")}
    return Thumbnail(tuple(map(tuple, kept["cells"])), **parts, grey=kept["grey"])


def thumbnail_of(name: str, lesson: Lesson) -> Thumbnail:
    """Return a lesson's thumbnail."""
    scene = lesson.steps[STEPS.get(name, 1) - 1].scenes()[HERE]
    if scene.state.source.picture:
        return Thumbnail(_picture(scene.result.x_hat), grey=True)
    return _with_ruler(scene)


def _picture(x_hat: torch.Tensor) -> tuple[tuple[int, ...], ...]:
    rows, cols = _PICTURE
    seen = x_hat[:: math.ceil(x_hat.shape[0] / rows), :: math.ceil(x_hat.shape[1] / cols)]
    return tuple(tuple(round(GREY * float(value) / 255) for value in row) for row in seen)


def _with_ruler(scene: Scene) -> Thumbnail:
    import numpy as np

    from quantviz.analysis.study import Study
    from quantviz.figures.ruler_data import ruler_of_cell

    ruler = ruler_of_cell(Study.of_result(scene.result), scene.why)
    lo, hi = ruler.domain

    def place(value: float) -> int:
        return round(_RULER * min(max((value - lo) / (hi - lo), 0.0), 1.0))

    values = scene.block.double().numpy()
    counts, _ = np.histogram(values, BARS, (lo, hi))
    shown = [level for level in ruler.levels.tolist() if lo <= level <= hi]
    return Thumbnail(
        _shades(scene.result.x_hat),
        tuple(math.ceil(HIGHEST * count / max(int(counts.max()), 3)) for count in counts.tolist()),
        tuple(map(place, shown)),
        tuple(map(place, ruler.range or ())),
    )


def _shades(x_hat: torch.Tensor) -> tuple[tuple[int, ...], ...]:
    """Return shades of the largest magnitudes in parts of the tensor."""
    matrix = x_hat.reshape(-1, x_hat.shape[-1]).double()
    if matrix.shape[0] == 1:
        # A row alone is shown as a square of its values.
        wide = min(_SIDE, math.ceil(math.sqrt(matrix.shape[1])))
        matrix = matrix[0, : wide * (matrix.shape[1] // wide)].reshape(-1, wide)
    largest = float(matrix.abs().max()) or 1.0
    strips = matrix.tensor_split(min(_SIDE, matrix.shape[0]), dim=0)
    parts = [rows.tensor_split(min(_SIDE, rows.shape[1]), dim=1) for rows in strips]
    return tuple(
        tuple(round(SHADES * float(part.flatten()[part.abs().argmax()]) / largest) for part in row)
        for row in parts
    )


def main() -> None:
    lines = []
    for name, lesson in sound_lessons().items():
        parts = dataclasses.asdict(thumbnail_of(name, lesson))
        lines.append(f"{json.dumps(name)}: {json.dumps(parts, separators=(',', ':'))}")
    _FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
