"""Distances on a step's ruler in pixels: a drag is judged no finer than a finger points."""

from __future__ import annotations

import math
from collections.abc import Collection

from quantviz.schemes.calibration import Given, ManualRange
from quantviz.teaching.lessons.formulas import Scene, quantities

#: Pixels of the axis on pages 390 and 1366 wide, less `SIDE` of `browser/ruler/places.js` at both ends.
AXES = {390: 366 - 2 * 24, 1366: 674 - 2 * 24}
#: Pixels by which a place on a phone may miss the goal and count, and be told to be near.
FINGER = 4
NEAR = 3 * FINGER
#: Most codes with all teeth in view, and room at the ends: as `domainOf` in `browser/hand/ruler_picture.js`.
_FEW_TEETH = 16
_BOTH_SIDES = 1.17
_ONE_SIDE = 0.08


def axis_of(scene: Scene, moves: Collection[str]) -> tuple[float, float]:
    """Return the ends of the ruler on which the handles `moves` begin.

    >>> from quantviz.lab.state import opening
    >>> lo, hi = axis_of(Scene(opening()), ("range",))
    >>> lo == -hi, hi > float(Scene(opening()).result.x.abs().max())
    (True, True)
    """
    from quantviz.analysis.study import Study
    from quantviz.figures.ruler_data import ruler_of_cell

    values = scene.block[scene.block.isfinite()].tolist()
    levels = ruler_of_cell(Study.of_result(scene.result), scene.why).levels.tolist()
    shown = [*values, *(levels if len(levels) <= _FEW_TEETH else ())]
    if "tooth" in moves:
        shown += [2 * value for value in shown]
    if not isinstance(scene.state.scheme.calibration, Given):
        shown += _ends(scene)
    lo, hi = min(shown), max(shown)
    if lo < 0 < hi:
        far = _BOTH_SIDES * max(-lo, hi)
        return -far, far
    room = _ONE_SIDE * ((hi - lo) or 1)
    return lo - room, hi + room


def pixels_off(start: Scene, own: Scene, goal: Scene, moves: Collection[str]) -> float:
    """Return by how many pixels of a phone `own` misses `goal`, infinite where anything else differs.

    Below 0, the hand has to go left, or make the range narrower.
    """
    lo, hi = axis_of(start, moves)
    per_pixel = (hi - lo) / AXES[390]
    schemes = {scene.state.scheme for scene in (own, goal)}
    if own.state.source != goal.state.source:
        return (goal.why.x - own.why.x) / per_pixel if len(schemes) == 1 else math.inf
    calibrated = {scheme.replace(calibration=ManualRange(-1.0, 1.0)) for scheme in schemes}
    kinds = {type(scene.state.scheme.calibration) for scene in (own, goal)}
    if len(calibrated) > 1 or kinds != {ManualRange}:
        return math.inf
    (own_lo, own_hi), (goal_lo, goal_hi) = _ends(own), _ends(goal)
    farther = max(own_lo - goal_lo, goal_hi - own_hi, goal_lo - own_lo, own_hi - goal_hi)
    return math.copysign(farther, (goal_hi - goal_lo) - (own_hi - own_lo)) / per_pixel


def _ends(scene: Scene) -> list[float]:
    # Of the range behind the scale of the selected cell's block.
    if scene.why.range is None:
        return []
    return [quantities()[name](scene) for name in ("range_lo", "range_hi")]
