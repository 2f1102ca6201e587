"""Scenarios: whole states of the Lab worth looking at, each with one sentence on the effect to look for.

A scenario is added here: one entry in `SCENARIOS` and its words in each language.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from quantviz.schemes.calibration import Given, Percentile
from quantviz.schemes.granularity import PerChannel, PerGroup, Shape
from quantviz.schemes.scheme import Scheme
from quantviz.sources import Builtin, LoudColumns, Normal, OneOutlier, Source, Uniform


@dataclass(frozen=True)
class Scenario:
    """A tensor, a scheme and the cell to begin with."""

    source: Source
    scheme: Scheme
    #: The cell selected at the start. Where it is one that a loud value takes the codes from, it does not lie
    #: beside that value, which its frame would hide.
    cell: Shape
    #: The scheme that the tiles compare with.
    baseline: Scheme | None = None


#: Every scenario by id, in the order they are offered.
SCENARIOS: Mapping[str, Scenario] = {
    "one_loud_column": Scenario(Builtin("loud_column"), Scheme("int4"), (2, 3)),
    "one_cell": Scenario(
        Builtin("course_3x3"),
        Scheme("int8", "asymmetric", calibration=Given(3.5, -70)),
        (0, 2),
        Scheme("int8", "asymmetric"),
    ),
    "one_outlier": Scenario(OneOutlier(rows=32, cols=32), Scheme("int4"), (7, 10)),
    "asymmetric_backfires": Scenario(
        Uniform(rows=16, cols=16, lo=10.0, hi=20.0), Scheme("int8", "asymmetric"), (4, 4), Scheme("int8")
    ),
    "clip_one_percent": Scenario(
        Normal(rows=128, cols=128), Scheme("int4", calibration=Percentile(99.0)), (0, 0), Scheme("int4")
    ),
    "three_bits_beat_four": Scenario(
        LoudColumns(rows=256, cols=256, every=32, factor=8.0),
        Scheme("int3", granularity=PerGroup(16)),
        (0, 8),
        Scheme("int4", granularity=PerChannel(0)),
    ),
    "picture": Scenario(Builtin("picture"), Scheme("uint2"), (20, 20)),
    "real_weight": Scenario(
        Builtin("real_weight"), Scheme("int4", granularity=PerChannel(1)), (0, 0), Scheme("int4")
    ),
    "landscape": Scenario(Builtin("landscape"), Scheme("uint3"), (37, 143)),
    "outlier_row": Scenario(Builtin("outlier_row"), Scheme("int4"), (0, 5)),
}

#: The scenario the Lab opens with.
FIRST = next(iter(SCENARIOS))


def scenario_of(source: object) -> str | None:
    """Return the scenario that this tensor belongs to, where there is one.

    >>> scenario_of(Builtin("loud_column"))
    'one_loud_column'
    """
    return next((name for name, scenario in SCENARIOS.items() if scenario.source == source), None)
