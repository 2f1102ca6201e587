"""Scans as gates: measured and failed tensors; and any gate as JUnit."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

from quantviz.text import DEFAULT_LANGUAGE, text, visible

if TYPE_CHECKING:
    from quantviz.checkpoints.results.rows import ResultRow


@dataclass(frozen=True)
class Gate:
    """Requirements on every tensor that is not left aside; without `least` only unread tensors fail."""

    #: The bound on SQNR in dB.
    least: float | None = None
    #: Whether tensors pass that a recipe does not fit.
    allow_refused: bool = False

    def failure(self, row: ResultRow, language: str = DEFAULT_LANGUAGE) -> str:
        """Return the reason why a row fails; "" where it does not."""
        has_bound = self.least is not None
        if row.is_unread or (row.status == "refused" and has_bound and not self.allow_refused):
            return str(row.reason)
        if row.status == "ok" and self.least is not None and not (db := _decibels(row)) >= self.least:
            return text("cli.below", language, scheme=row.recipe, sqnr_db=db, least=self.least)
        return ""


@dataclass(frozen=True)
class Counts:
    """Numbers of tensors by outcome under a recipe."""

    recipe: str
    measured: int
    #: Measured under the type that the engine uses where the recipe does not fit.
    fallen_back: int
    left_aside: int
    #: Those that the recipe does not fit, where that does not fail.
    refused: int
    failed: int


def counts_of(rows: Iterable[ResultRow], gate: Gate) -> tuple[Counts, ...]:
    """Return the numbers of tensors by outcome, for each recipe of a scan.

    >>> from quantviz.checkpoints.results.rows import ResultRow
    >>> row = ResultRow("a", "q4_k", "refused", "384")
    >>> counts_of([row], Gate())[0].failed, counts_of([row], Gate(20.0))[0].failed
    (0, 1)
    """
    by_recipe: dict[str, list[ResultRow]] = {}
    for row in rows:
        by_recipe.setdefault(row.recipe, []).append(row)
    return tuple(
        Counts(
            recipe,
            measured=sum(row.status == "ok" for row in rows_of_recipe),
            fallen_back=sum(row.status == "ok" and row.fallback is not None for row in rows_of_recipe),
            left_aside=sum(row.status == "left_aside" for row in rows_of_recipe),
            refused=sum(row.status == "refused" and not gate.failure(row) for row in rows_of_recipe),
            failed=sum(bool(gate.failure(row)) for row in rows_of_recipe),
        )
        for recipe, rows_of_recipe in by_recipe.items()
    )


@dataclass(frozen=True)
class GateCase:
    """Outcome of one tensor or layer in a gate."""

    #: The recipe, the run or the layers' schemes of its bound.
    suite: str
    name: str
    #: The reason why it fails, or "".
    failure: str
    #: Its number in words.
    measured: str = ""
    #: The reason why it was not measured, where that need not fail, or "".
    skipped: str = ""


def cases_of(rows: Iterable[ResultRow], gate: Gate, language: str = DEFAULT_LANGUAGE) -> list[GateCase]:
    cases = []
    for row in rows:
        if row.status == "left_aside":
            continue
        failure = gate.failure(row, language)
        skipped = str(row.reason) if row.status == "refused" else ""
        number = text("report.named", language, tensor=row.recipe, sqnr_db=f"{_decibels(row):.4g}")
        cases.append(GateCase(row.recipe, row.tensor, failure, number, skipped))
    return cases


def _decibels(row: ResultRow) -> float:
    return math.nan if row.sqnr_db is None else row.sqnr_db


def junit(cases: Iterable[GateCase]) -> str:
    """Return the outcomes of a gate as JUnit's XML: a suite for each recipe, a case for each tensor."""
    by_suite: dict[str, list[GateCase]] = {}
    for case in cases:
        by_suite.setdefault(case.suite, []).append(case)
    suites = []
    for name, cases_of_suite in by_suite.items():
        failures = sum(bool(case.failure) for case in cases_of_suite)
        skipped = sum(bool(case.skipped and not case.failure) for case in cases_of_suite)
        suites.append(
            f'<testsuite name={_quoted(name)} tests="{len(cases_of_suite)}" failures="{failures}"'
            f' skipped="{skipped}">{"".join(map(_written, cases_of_suite))}</testsuite>'
        )
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites>{"".join(suites)}</testsuites>\n'


def _written(case: GateCase) -> str:
    opening = f"<testcase classname={_quoted(case.suite)} name={_quoted(case.name)}"
    if case.failure:
        return f"{opening}><failure message={_quoted(case.failure)}/></testcase>"
    if case.skipped:
        return f"{opening}><skipped message={_quoted(case.skipped)}/></testcase>"
    return f"{opening}><system-out>{escape(visible(case.measured))}</system-out></testcase>"


def _quoted(words: str) -> str:
    return quoteattr(visible(words))
