"""Every scheme that is offered: convention × format × mode × granularity, those with problems left out."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cache

import quantviz as qv
from quantviz.schemes.granularity import GRANULARITIES, Granularity

#: What stands for a granularity where its size is free.
EXAMPLES: dict[str, Granularity] = {
    "per_tensor": qv.PerTensor(),
    "per_channel": qv.PerChannel(0),
    "per_group": qv.PerGroup(16),
    "per_block": GRANULARITIES["per_block"](2, 8),
    "flat": GRANULARITIES["flat"](64),
}


def problems(*fields: object) -> tuple[qv.QuantVizError, ...]:
    """What `Scheme(*fields)` would be refused for: the first problem, as the constructor raises one."""
    scheme = _built(*fields)
    return (scheme,) if isinstance(scheme, qv.QuantVizError) else scheme.problems()


def _built(*fields: object) -> qv.Scheme | qv.QuantVizError:
    try:
        return qv.Scheme(*fields)
    except qv.QuantVizError as problem:
        return problem


def granularities(convention: qv.Convention, format_id: str) -> Iterator[Granularity]:
    """One of each id, of the smallest size that is offered with a format."""
    sizes = convention.offer.sizes_of(format_id)
    for granularity in EXAMPLES.values():
        yield type(granularity)(min(sizes)) if sizes and hasattr(granularity, "size") else granularity


def calibration_of(convention: qv.Convention) -> qv.MinMax | qv.Searched:
    """The calibration that a convention begins with."""
    return qv.Searched() if convention.search else qv.MinMax()


def offered_schemes(convention: qv.Convention, formats: tuple[str, ...] = ()) -> Iterator[qv.Scheme]:
    """Every scheme of a convention that is not refused; of `formats`, where some are named."""
    calibration = calibration_of(convention)
    for format_id in formats or qv.FORMATS:
        yield from _of_format(convention, calibration, format_id)


@cache
def _of_format(
    convention: qv.Convention, calibration: qv.MinMax | qv.Searched, format_id: str
) -> tuple[qv.Scheme, ...]:
    """Return those of one format; several files of tests walk all of them while they are collected."""
    offered = convention.offer.formats
    if offered and format_id not in offered:
        return ()  # each would be refused, which takes ten times as long to find as all others to build
    walked = itertools.product(qv.MODES, granularities(convention, format_id))
    built = (_built(format_id, mode, each, calibration, convention) for mode, each in walked)
    return tuple(scheme for scheme in built if isinstance(scheme, qv.Scheme) and not scheme.problems())


def one_of(convention: qv.Convention, **changes: object) -> qv.Scheme:
    """The first scheme that a convention offers."""
    return next(offered_schemes(convention)).replace(**changes)


def variant(convention: qv.Convention, name: str, value: object) -> qv.Convention | None:
    """The convention with another value of one field; none where that value goes only together with
    others.
    """
    try:
        return convention.replace(**{name: value})
    except qv.QuantVizError as problem:
        if problem.key != "convention_lacks":
            raise
        return None
