"""Answers that are given by dragging: a state as the text that is kept of it, and the state that is right."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from urllib.parse import parse_qsl, urlencode

from quantviz.errors import QuantVizError
from quantviz.lab.moves import formats_like, hand_choices, moved
from quantviz.lab.state import LabState
from quantviz.schemes.calibration import Given, ManualRange
from quantviz.schemes.formats import find_format
from quantviz.sources.base import Source
from quantviz.sources.edited import with_cell
from quantviz.sources.typed import Typed
from quantviz.teaching.lessons.dials import DialState
from quantviz.teaching.lessons.formulas import Scene

#: Handles: both ends of the range, the zero point's tooth, the same while codes are held and values go along,
#: any other tooth, the selected value, the bits, a group's size, the bits of the value's code; a dial.
HANDLES = ("range", "zero", "held_zero", "tooth", "value", "bits", "group", "flip", "dial")
#: Places to which a ruler's knobs can snap.
SNAPS = ("teeth", "midpoints", "zero")
#: Quantities of a solution, with the handles that move them.
SOLVED_BY: Mapping[str, frozenset[str]] = {
    "lo": frozenset({"range"}),
    "hi": frozenset({"range"}),
    "scale": frozenset({"tooth"}),
    "zero_point": frozenset({"zero"}),
    "value": frozenset({"value", "flip"}),
    "bits": frozenset({"bits"}),
    "size": frozenset({"group"}),
    "dial": frozenset({"dial"}),
}
#: The handles that each message of a hand is about: see `quantviz.lab.moves`.
_HANDLES_OF = {
    "range": {"range"},
    "given": {"zero", "held_zero", "tooth"},
    "cell": {"value", "flip"},
    "format": {"bits"},
    "group": {"group"},
    "dial": {"dial"},
}


def moved_by(state: LabState, message: Mapping[str, object], moves: Iterable[str]) -> LabState:
    """Return the state after a hand's message; `QuantVizError` unless it is about one of `moves`."""
    kind = message.get("kind")
    if not _HANDLES_OF.get(str(kind), set()) & set(moves):
        raise QuantVizError("hand.kind", got=str(kind)[:40], known=", ".join(moves))
    after = _turned(state, str(message.get("at"))) if kind == "dial" else moved(state, message)
    return _with_codes_held(state, after) if kind == "given" and "held_zero" in moves else after


def _turned(state: LabState, at: str) -> LabState:
    # An unknown stop is an error.
    if not isinstance(state, DialState):
        raise QuantVizError("hand.kind", got="dial", known="s, t")
    after = replace(state, at=at)
    _ = after.series
    return after


def _with_codes_held(before: LabState, after: LabState) -> LabState:
    """Return `after` on the values that the codes of `before` have under its zero point."""
    given = after.scheme.calibration
    assert isinstance(given, Given)
    values = (Scene(before).result.q - given.zero_point) * given.scale
    return after.replace(source=Typed.of(values.tolist()))


def drag_answer(start: LabState, now: LabState) -> str:
    """Return a learner's changes as text: the scheme, a changed tensor, the dial's stop."""
    link = now.written()
    if isinstance(now, DialState):
        return urlencode({"s": link["s"], "d": now.at})
    names = ("s",) if now.source == start.source else ("s", "t")
    return urlencode({name: link[name] for name in names})


def dragged(start: LabState, answer: str) -> LabState:
    """Return the state that `answer` describes."""
    parts: dict[str, str] = dict(parse_qsl(answer))
    link = start.written() | {name: parts[name] for name in ("s", "t") if name in parts}
    state, problems = LabState.read(link)
    for problem in problems:
        raise problem
    # A forged answer may name any tensor: none is opened that a hand cannot have made of the step's own.
    if state.source.shape != start.source.shape:
        raise QuantVizError("hand.kind", got="t", known="s, d")
    after = start.replace(scheme=state.scheme, source=state.source)
    return _turned(after, parts["d"]) if "d" in parts else after


def can_be_dragged(start: LabState, state: LabState, moves: Iterable[str]) -> bool:
    """Return whether dragging `moves` leads from `start` to `state`, or back to `start`."""
    moves = frozenset(moves)
    scheme = start.scheme
    wanted = state.scheme
    try:
        if "bits" in moves and wanted.format != scheme.format:
            # A format that needs another mode was once on the slider: such an answer stays one.
            if wanted.format not in formats_like(start.scheme):
                return False
            scheme = scheme.with_format(wanted.format)
        if "group" in moves:
            scheme = scheme.replace(granularity=wanted.granularity)
        kinds: dict[str, type] = {"range": ManualRange, "zero": Given, "tooth": Given}
        if any(isinstance(wanted.calibration, kinds[name]) for name in moves & kinds.keys()):
            scheme = scheme.replace(calibration=wanted.calibration)
    except QuantVizError:
        return False
    fits = scheme == wanted and not wanted.problems(start.source.shape)
    if not fits or state.source == start.source:
        return fits
    return bool({"value", "flip"} & moves) and _one_value(start.source, state.source)


def _one_value(before: Source, after: Source) -> bool:
    if after.shape != before.shape:
        return False
    x = after.tensor()
    cells = (before.tensor() != x).nonzero().tolist()
    return len(cells) == 1 and after == with_cell(before, tuple(cells[0]), float(x[tuple(cells[0])]))


def solved(start: LabState, values: Mapping[str, float], scale: float, zero_point: float) -> LabState:
    """Return `start` with `values`, by their names of `SOLVED_BY`.

    `scale` and `zero_point` are those of `start`, for the one that is not named.
    """
    state = start
    if "bits" in values:
        formats = hand_choices(start).formats.values
        fitting = [name for name in formats if find_format(name).bits == values["bits"]]
        if not fitting:
            raise QuantVizError("lessons.no_such_bits", got=values["bits"])
        state = moved(state, {"kind": "format", "id": fitting[0]})
    if "size" in values:
        state = moved(state, {"kind": "group", "size": round(values["size"])})
    if "hi" in values:
        lo = values.get("lo", -values["hi"])
        state = moved(state, {"kind": "range", "lo": float(lo), "hi": float(values["hi"])})
    if values.keys() & {"scale", "zero_point"}:
        given = {"scale": values.get("scale", scale), "zero_point": values.get("zero_point", zero_point)}
        state = moved(state, {"kind": "given", **{name: float(value) for name, value in given.items()}})
    if "value" in values:
        state = moved(state, {"kind": "cell", "cell": list(start.cell), "value": float(values["value"])})
    if "dial" in values and isinstance(state, DialState):
        state = state.nearest(values["dial"])
    if not all(map(math.isfinite, values.values())):
        raise QuantVizError("lessons.no_solution")
    return state


def sqnr_of_bits(state: LabState) -> tuple[tuple[int, float], ...]:
    """Return bits and SQNR in dB of each format of the scheme's family, fewest bits first.

    >>> from quantviz.lab.state import LabState, opening
    >>> points = sqnr_of_bits(opening())
    >>> [bits for bits, _ in points], points[-1][1] > points[0][1]
    ([2, 3, 4, 5, 6, 7, 8], True)
    """
    from quantviz.evaluation.metric_formulas import METRICS
    from quantviz.quantization.quantizer import quantize

    x = state.source.tensor()
    return tuple(
        (scheme.number_format.bits, float(METRICS["sqnr_db"](quantize(x, scheme))))
        for scheme in reversed(hand_choices(state).formats.schemes)
    )
