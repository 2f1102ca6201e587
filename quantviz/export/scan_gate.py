"""A scan as a gate: how many tensors were measured and how many failed, and the same as JUnit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from quantviz.text import DEFAULT_LANGUAGE, text, visible

#: Statuses of a tensor of whose values nothing is known.
_UNREAD = ("not_read", "problem")


@dataclass(frozen=True)
class Gate:
    """The requirements on every tensor that is not left aside.

    Without `least` only tensors that could not be read fail.
    """

    #: Decibels below which the SQNR of a tensor fails; None for no bound.
    least: float | None = None
    #: Whether a recipe may not fit a tensor.
    allow_refused: bool = False

    def failure(self, row: Mapping[str, Any], language: str = DEFAULT_LANGUAGE) -> str:
        """Return why a row of a scan's table fails; "" where it does not."""
        status = row["status"]
        db = row["sqnr_db"]
        if status in _UNREAD or (status == "refused" and self.least is not None and not self.allow_refused):
            return str(row["reason"])
        if status == "ok" and self.least is not None and (math.isnan(db) or db < self.least):
            return text("cli.below", language, scheme=row["recipe"], sqnr_db=db, least=self.least)
        return ""


@dataclass(frozen=True)
class Counts:
    """Numbers of tensors by outcome under a recipe."""

    recipe: str
    measured: int
    #: Of these, how many under the type that the engine uses where the recipe does not fit.
    fallen_back: int
    left_aside: int
    #: Those that the recipe does not fit, where that does not fail.
    refused: int
    failed: int


def counts_of(rows: Iterable[Mapping[str, Any]], gate: Gate) -> tuple[Counts, ...]:
    """Return the numbers of tensors by outcome, for each recipe of a scan's table.

    >>> row = {"tensor": "a", "recipe": "q4_k", "status": "refused", "sqnr_db": float("nan"), "reason": "384"}
    >>> row |= {"fallback": None}
    >>> counts_of([row], Gate())[0].failed, counts_of([row], Gate(20.0))[0].failed
    (0, 1)
    """
    by_recipe: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_recipe.setdefault(str(row["recipe"]), []).append(row)
    return tuple(
        Counts(
            recipe,
            measured=sum(row["status"] == "ok" for row in own),
            fallen_back=sum(row["status"] == "ok" and isinstance(row["fallback"], str) for row in own),
            left_aside=sum(row["status"] == "left_aside" for row in own),
            refused=sum(row["status"] == "refused" and not gate.failure(row) for row in own),
            failed=sum(bool(gate.failure(row)) for row in own),
        )
        for recipe, own in by_recipe.items()
    )


def junit(rows: Iterable[Mapping[str, Any]], gate: Gate, language: str = DEFAULT_LANGUAGE) -> str:
    """Return a scan's table as JUnit's XML: a suite for each recipe, a case for each tensor that is not left
    aside, and its failure.
    """
    rows = list(rows)
    suites = []
    for counts in counts_of(rows, gate):
        own = [row for row in rows if row["recipe"] == counts.recipe and row["status"] != "left_aside"]
        cases = "".join(_case(row, gate, language) for row in own)
        suites.append(
            f'<testsuite name={_quoted(counts.recipe)} tests="{len(own)}" failures="{counts.failed}"'
            f' skipped="{counts.refused}">{cases}</testsuite>'
        )
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites>{"".join(suites)}</testsuites>\n'


def _case(row: Mapping[str, Any], gate: Gate, language: str) -> str:
    opening = f"<testcase classname={_quoted(row['recipe'])} name={_quoted(row['tensor'])}"
    if why := gate.failure(row, language):
        return f"{opening}><failure message={_quoted(why)}/></testcase>"
    if row["status"] == "refused":
        return f"{opening}><skipped message={_quoted(row['reason'])}/></testcase>"
    words = text("report.named", language, tensor=row["recipe"], sqnr_db=f"{row['sqnr_db']:.4g}")
    return f"{opening}><system-out>{escape(words)}</system-out></testcase>"


def _quoted(words: object) -> str:
    return quoteattr(visible(str(words)))
