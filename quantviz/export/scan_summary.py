"""The summary of a scan's table: recipes side by side, the worst tensors, and a map of layers by kinds."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from quantviz.checkpoints.model.account import counts_as_weight
from quantviz.checkpoints.results.rows import ResultRow
from quantviz.checkpoints.results.typed_tables import TypedTable
from quantviz.errors import QuantVizError
from quantviz.text import DEFAULT_LANGUAGE

#: Columns that a table must have.
NEEDED = ("tensor", "recipe", "status", "sqnr_db")


@dataclass(frozen=True)
class RecipeSummary:
    recipe: str
    measured: int
    left_aside: int
    refused: int
    problems: int
    #: Bytes of the measured tensors, equal contents once; and bits a weight.
    size: float | None
    bits_per_weight: float | None
    #: dB; None where nothing was measured.
    lowest: float | None
    median: float | None


@dataclass(frozen=True)
class ScanSummary:
    rows: tuple[ResultRow, ...]
    recipes: tuple[RecipeSummary, ...]
    #: Names of all tensors in the table's order.
    tensors: tuple[str, ...]
    #: The scan's sentence on how much it read, by language; empty if the table has none.
    coverage: Mapping[str, str] = field(default_factory=dict)
    #: Notes on the checkpoint's files and on the measurements, in the table's language.
    notes: tuple[str, ...] = ()

    @property
    def unread(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(row.tensor for row in self.rows if row.is_unread))

    @property
    def weights(self) -> tuple[str, ...]:
        """Return the tensors that are not left aside under every recipe."""
        return tuple(dict.fromkeys(row.tensor for row in self.rows if row.status != "left_aside"))

    @property
    def constant(self) -> tuple[str, ...]:
        """Return the matrices whose values are all equal."""
        return tuple(dict.fromkeys(row.tensor for row in self.rows if is_constant(row)))

    def under(self, recipe: str) -> dict[str, ResultRow]:
        return {row.tensor: row for row in self.rows if row.recipe == recipe}

    def worst(self, recipe: str, most: int) -> list[ResultRow]:
        """Return the tensors of lowest SQNR under a recipe, the worst first."""
        found = [row for row in self.under(recipe).values() if row.sqnr_db is not None]
        return sorted(found, key=lambda row: row.sqnr_db or 0.0)[:most]

    def better(self, row: ResultRow) -> ResultRow | None:
        """Return the recipe of fewest bits among those that give a tensor 6 dB more: half the error."""
        found = [
            each
            for each in self.rows
            if each.tensor == row.tensor
            and each.sqnr_db is not None
            and row.sqnr_db is not None
            and each.sqnr_db >= row.sqnr_db + _HALF_THE_ERROR
        ]
        return min(
            found, key=lambda each: (each.bits_per_weight or math.inf, -(each.sqnr_db or 0)), default=None
        )


#: Decibels that halve the error.
_HALF_THE_ERROR = 6.0


def summary_of(table: Any, language: str = DEFAULT_LANGUAGE) -> ScanSummary:
    """Return the summary of a table: a DataFrame, columns by name, or records with the columns of a scan.

    A row that is damaged counts as one with a problem, described in `language`.

    Raises:
        QuantVizError: A needed column is missing, there are no rows, or it is no table.
    """
    read = TypedTable.of(table)
    if not read.names:
        raise QuantVizError("report.empty")
    missing = [name for name in NEEDED if name not in read.names]
    if missing:
        raise QuantVizError("report.columns", missing=", ".join(missing), known=", ".join(read.names))
    if not read.rows:
        raise QuantVizError("report.empty")
    rows = tuple(row.told(language) for row in read.rows)
    by_recipe: dict[str, list[ResultRow]] = {}
    for row in rows:
        by_recipe.setdefault(row.recipe, []).append(row)
    coverage = getattr(table, "attrs", {}).get("coverage")
    return ScanSummary(
        rows,
        tuple(_recipe(name, own) for name, own in by_recipe.items()),
        tuple(dict.fromkeys(row.tensor for row in rows)),
        dict(coverage) if isinstance(coverage, Mapping) else {},
        tuple(getattr(table, "attrs", {}).get("notes", ())),
    )


def is_constant(row: ResultRow) -> bool:
    """Return whether a row is one of a matrix whose values are all equal, which no recipe can harm.

    >>> is_constant(ResultRow("a", "int8", shape=(8, 8), numbers={"low": 0.0, "high": 0.0}))
    True
    """
    low = row.number("low")
    return low is not None and low == row.number("high") and counts_as_weight(row.tensor, row.shape or ())


def _recipe(name: str, rows: Sequence[ResultRow]) -> RecipeSummary:
    counts = Counter(row.status for row in rows)
    found = [row.sqnr_db for row in rows if row.sqnr_db is not None]
    stored = {row.content or row.tensor: row for row in rows if row.status == "ok" and row.bits is not None}
    bits = sum(row.bits or 0 for row in stored.values())
    weights = sum((row.bits or 0) / row.bits_per_weight for row in stored.values() if row.bits_per_weight)
    return RecipeSummary(
        recipe=name,
        measured=counts["ok"],
        left_aside=counts["left_aside"],
        refused=counts["refused"],
        problems=counts["problem"] + counts["not_read"],
        size=bits / 8 if stored else None,
        bits_per_weight=bits / weights if weights else None,
        lowest=min(found, default=None),
        median=statistics.median(found) if found else None,
    )
