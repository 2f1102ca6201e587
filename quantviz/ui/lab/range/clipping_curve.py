"""The clipping curve of the tab Range: its data at once, and the parts that are computed later."""

from __future__ import annotations

import hashlib
from functools import partial
from typing import TYPE_CHECKING, Any

from quantviz.lab.state import LabState
from quantviz.schemes.calibration import MinMax
from quantviz.ui.components.hand_curve import HandCurve, complete_curve
from quantviz.ui.lab.picture.tensor_panels import PANELS_KEY
from quantviz.ui.lab.range.range_tab import block_asked_for, curve_marks, has_curve, is_far
from quantviz.ui.lab.tensor import ask_study_of, kept
from quantviz.ui.shell.classroom import locked

if TYPE_CHECKING:
    from quantviz.analysis.range_error import RangeCurve
    from quantviz.analysis.study import Study


def curve_at_once(study: Study, why: Any, state: LabState) -> HandCurve | None:
    """Return the curve as far as it takes no time, of the tensor or of the selected cell's block; None where
    a range has no effect, or a pass for each point would take too long.
    """
    from quantviz.analysis.clipping_curve import estimated_curves
    from quantviz.analysis.range_error import ranges_to_try

    block = block_asked_for(study, why)
    if not has_curve(study, state):
        return None
    own = study if block is None else study.alone(block)
    ends = ranges_to_try(own, 1)
    if ends is None:
        return None
    name = _name(state, block)
    estimates = kept(state.source, f"estimates {name}", lambda: estimated_curves(own))
    key = hashlib.blake2b(f"{state.source.key} {name}".encode(), digest_size=8).hexdigest()
    return HandCurve(key, block is not None, estimates, float(ends[1][0]))


def complete(curve: HandCurve, study: Study, why: Any, state: LabState) -> None:
    """Add the slower parts to the curve: the calibrations' marks, and the exact points of a large tensor."""
    block = block_asked_for(study, why)
    complete_curve(
        curve.key,
        PANELS_KEY,
        curve_marks(state, block),
        _exact(state, block) if is_far(study, state) else None,
        locked=locked("scheme") or locked("range"),
    )


def _exact(state: LabState, block: tuple[int, ...] | None) -> RangeCurve | None:
    from quantviz.analysis.clipping_curve import BEYOND, STEPS
    from quantviz.analysis.range_error import range_curve

    return ask_study_of(
        state, f"curve {_name(state, block)}", partial(range_curve, steps=STEPS, beyond=BEYOND), block
    )


def _name(state: LabState, block: tuple[int, ...] | None) -> str:
    return f"{state.scheme.replace(calibration=MinMax())} {block}"
