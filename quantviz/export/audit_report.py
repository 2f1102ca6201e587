from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

from quantviz.checkpoints.model.account import BECAME, Side
from quantviz.checkpoints.model.coverage_words import percent
from quantviz.export.html_page import fixed, html_page, linked
from quantviz.text import DEFAULT_LANGUAGE, text, visible

if TYPE_CHECKING:
    from quantviz.checkpoints.audit.auditing import Audit
    from quantviz.checkpoints.audit.tensor_audit import TensorAudit

#: Tensors that a table lists.
_MOST_UNREAD = 50
_WORST = 20
#: Statuses of tensors whose errors are known.
_COMPARED = ("ok", "not_same")
_SIDES: tuple[Side, ...] = ("quantized", "original")


@dataclass(frozen=True)
class _ReportTable:
    id: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left_out: int = 0
    #: An address for each row's first cell; "" for none.
    links: tuple[str, ...] = ()

    def headings(self, language: str) -> list[tuple[str, str]]:
        return [
            (text(f"audit_report.column.{name}", language), "number" if name in _NUMBERS else "")
            for name in self.columns
        ]


#: Columns of numbers.
_NUMBERS = frozenset(("tensors", "weights", "values", "bytes", "sqnr", "cosine", "bits"))


def audit_html(
    audit: Audit,
    *,
    title: str | None = None,
    language: str = DEFAULT_LANGUAGE,
    links: Mapping[str, str] | None = None,
) -> str:
    """Return an audit as one page of HTML that needs no other file; names are text, whatever is in them.

    `links` are addresses by tensor, for the table of the largest errors.
    """
    verdict, *others = audit.messages(language)
    tables = [
        {
            "id": table.id,
            "headings": table.headings(language),
            "rows": [
                (linked(address, row[0]), *row[1:])
                for row, address in zip_longest(table.rows, table.links, fillvalue="")
            ],
            "left_out": table.left_out,
        }
        for table in _tables(audit, language, links or {})
    ]
    return html_page(
        "audit",
        language=language,
        title=title or text("audit_report.title", language),
        verdict=verdict,
        sentences=others,
        tables=tables,
    )


def audit_markdown(audit: Audit, *, title: str | None = None, language: str = DEFAULT_LANGUAGE) -> str:
    """Return an audit as Markdown, without links."""
    verdict, *others = audit.messages(language)
    parts = [f"# {plain(title or text('audit_report.title', language))}", f"**{plain(verdict)}**"]
    if others:
        parts.append("\n".join(f"- {plain(sentence)}" for sentence in others))
    for table in _tables(audit, language, {}):
        heading = text(f"audit_report.heading.{table.id}", language)
        parts += [f"## {heading}", markdown_table(table.headings(language), table.rows)]
        if table.left_out:
            parts.append(text("audit_report.more", language, count=table.left_out))
    return "\n\n".join(parts) + "\n"


def worst_tensors(audit: Audit) -> list[TensorAudit]:
    """Return the tensors of the largest errors, those without a number first."""
    compared = [tensor for tensor in audit.tensors if tensor.status in _COMPARED]
    decibels = ((tensor.metrics["sqnr_db"], tensor) for tensor in compared)
    order = sorted(decibels, key=lambda pair: (not math.isnan(pair[0]), pair[0]))
    return [tensor for _, tensor in order[:_WORST]]


def _tables(audit: Audit, language: str, links: Mapping[str, str]) -> Iterator[_ReportTable]:
    yield _coverage(audit, language)
    rows = audit.rows(language)
    unread = [row for row in rows if row["coverage"] == "not_read"]
    if unread:
        yield _ReportTable(
            "not_read",
            ("tensor", "original", "reason"),
            tuple(
                (_words(row["tensor"]), _words(row["original"]), _words(row["reason"]))
                for row in unread[:_MOST_UNREAD]
            ),
            max(0, len(unread) - _MOST_UNREAD),
        )
    worst = worst_tensors(audit)
    if worst:
        yield _ReportTable(
            "worst",
            ("tensor", "original", "layout", "format", "bits", "sqnr", "cosine", "rounding"),
            tuple(
                (
                    tensor.tensor,
                    _words(tensor.original),
                    text(f"notes.layouts.names.{tensor.layout}", language),
                    _words(tensor.scheme and tensor.scheme.format),
                    fixed(tensor.bits, 3),
                    fixed(tensor.metrics["sqnr_db"]),
                    fixed(tensor.metrics["cosine"], 5),
                    text(f"audit_report.rounding.{tensor.rounding or 'unknown'}", language),
                )
                for tensor in worst
            ),
            sum(tensor.status in _COMPARED for tensor in audit.tensors) - len(worst),
            tuple(links.get(tensor.tensor, "") for tensor in worst),
        )


def _coverage(audit: Audit, language: str) -> _ReportTable:
    rows = []
    for side in _SIDES:
        coverage = audit.account.coverage(side)
        for became in BECAME:
            part = coverage.part(became)
            if not part.tensors and not part.size:
                continue
            rows.append(
                (
                    text(f"audit_report.side.{side}", language),
                    text(f"checkpoints.audit.became.{became}", language),
                    f"{part.tensors:,}",
                    f"{part.weights:,}",
                    percent(coverage.share(became, "elements")),
                    percent(coverage.share(became, "size")),
                )
            )
    return _ReportTable("coverage", ("side", "became", "tensors", "weights", "values", "bytes"), tuple(rows))


def _words(value: object) -> str:
    return str(value) if value else "–"


def markdown_table(headings: Iterable[tuple[str, object]], rows: Iterable[Iterable[str]]) -> str:
    """Return a table in Markdown; a heading with a kind stands above numbers, at the right."""
    words, kinds = zip(*headings, strict=True)
    under = ("--:" if kind else "---" for kind in kinds)
    return "\n".join(f"| {' | '.join(line)} |" for line in (words, under, *(map(plain, row) for row in rows)))


def plain(words: str) -> str:
    r"""Return a stranger's text as Markdown that shows it in one line.

    >>> print(plain("a|b*c_d<e>"))
    a\|b\*c\_d\<e\>
    """
    return "".join(f"\\{each}" if each in "\\`*_[]<>|#~!$" else each for each in visible(words))
