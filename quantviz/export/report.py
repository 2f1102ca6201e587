"""A scan's table as one page of HTML: its findings, a map, the recipes and the worst tensors."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from quantviz.checkpoints.model.tensor_names import KindMap, kind_map
from quantviz.checkpoints.results.rows import Row
from quantviz.door import public
from quantviz.errors import QuantVizError, known_language
from quantviz.export.audit_report import audit_html
from quantviz.export.html_page import REPORT_STYLE, escaped, html_page, html_table, linked
from quantviz.export.scan_summary import ScanSummary, summary_of
from quantviz.figures.numbers import number
from quantviz.text import DEFAULT_LANGUAGE, text
from quantviz.whole_files import write_file

#: Tensors that the verdict names, and that the table of the worst has.
_NAMED = 3
WORST = 20
#: Above this kurtosis a few large values set the scale of most; a Gaussian has 3.
_HEAVY = 10.0
#: From this share on clipping, or rounding to zero, is the reason that is given.
_CLIPPED = 0.01
_ZEROED = 0.5
#: Decibels from the median at which a cell of the map has its full colour.
_FULL_COLOUR = 15.0
#: Most cells of all maps together, and most reasons that are listed.
_CELLS = 40_000
_REASONS = 50
#: Columns that are no numbers: a name may be broken, words are not.
_KINDS = {
    **dict.fromkeys(("tensor", "recipe", "reason"), "name"),
    **dict.fromkeys(("shape", "better", "status"), "words"),
}

_STYLE = """
td.name { overflow-wrap: anywhere; min-width: min(16rem, 45vw); }
td.words { white-space: nowrap; }
.map th { font-weight: 400; font-size: var(--qv-12); }
.map thead th:not(:first-child) { text-align: center; }
.map thead th span { writing-mode: vertical-rl; transform: rotate(180deg); max-height: 14rem; }
.map td { padding: .15rem .3rem; text-align: center; font-size: var(--qv-12); min-width: 2.1rem;
  border: 1px solid var(--surface); }
.map td.low { background: color-mix(in srgb, #c8591b calc(var(--w) * 1%), var(--surface)); }
.map td.high { background: color-mix(in srgb, #12808f calc(var(--w) * 1%), var(--surface)); }
.map td.none { color: var(--muted); background: var(--raised); }
details { margin: .5rem 0; } summary { cursor: pointer; color: var(--accent); }
.muted { color: var(--muted); }
@media print { details > * { display: block; } }
"""


@public
def report(
    table: Any,
    path: str | PurePath | None = None,
    *,
    title: str | None = None,
    recipe: str | None = None,
    language: str = DEFAULT_LANGUAGE,
    links: Mapping[str, str] | None = None,
) -> str:
    """Return a scan's table, an audit or compared runs as one page of HTML, and write it to `path`.

    It needs no other file. Of a scan the worst tensors come first, with the reasons and remedies; then a map
    of layers by kinds, the recipes side by side, the worst tensors, and those that were not measured. Names
    are text, whatever is in them.

    Args:
        table: The result of `audit`, of `compare_runs` or of `scan`: a DataFrame, or records with `tensor`,
            `recipe`, `status` and `sqnr_db`; `shape`, `content`, `bits`, `max_error`, `kurtosis`,
            `clipped_share`, `zeroed_share` and `reason` are used if present.
        path: Where the page is written; nowhere if None.
        title: Its heading.
        recipe: The recipe whose worst tensors are listed; the first of the table if None.
        language: "en" or "zh".
        links: Addresses by tensor, such as those that `quantviz link` prints: the worst tensors lead there.

    Raises:
        QuantVizError: The table is empty or lacks a column, or has no such recipe.

    >>> row = {"tensor": "<b>", "recipe": "int8_per_row", "status": "ok", "sqnr_db": 41.25}
    >>> page = report([row])
    >>> "&lt;b&gt;" in page, "<b>" in page
    (True, False)
    """
    from quantviz.checkpoints.audit.auditing import Audit
    from quantviz.models.runs import RunComparison

    known_language(language)
    if isinstance(table, RunComparison):
        from quantviz.export.runs_report import runs_html

        return _put(runs_html(table, title=title, language=language), path)
    if isinstance(table, Audit):
        return _put(audit_html(table, title=title, language=language, links=links), path)
    summary = summary_of(table, language)
    known = [each.recipe for each in summary.recipes]
    if recipe is not None and recipe not in known:
        raise QuantVizError("unknown_recipe", got=recipe, known=", ".join(known))
    return _put(_Page(summary, recipe or known[0], language, links or {}).written(title), path)


def _put(page: str, path: str | PurePath | None) -> str:
    if path is not None:
        write_file(path, page)
    return page


class _Page:
    """The parts of one report. Names and numbers of tensors are escaped where they are put into words."""

    def __init__(self, summary: ScanSummary, recipe: str, language: str, links: Mapping[str, str]) -> None:
        self.summary = summary
        self.recipe = recipe
        self.language = language
        self.links = links

    def say(self, key: str, /, **params: object) -> str:
        """Return a sentence as HTML."""
        return text(key, self.language, **{name: escaped(value) for name, value in params.items()})

    def written(self, title: str | None) -> str:
        """Return the whole page."""
        heading = title or text("report.title", self.language)
        counts = self.say(
            "report.counts", tensors=len(self.summary.tensors), recipes=len(self.summary.recipes)
        )
        body = [
            f'<h1>{escaped(heading)}</h1>\n<p class="muted">{counts}</p>',
            f'<p class="verdict">{self.verdict()}</p>',
            *(f'<p class="muted">{escaped(note)}</p>' for note in self.summary.notes),
            *self.maps(),
            *self.section("recipes", self.recipes()),
            *self.section("worst", self.worst(), recipe=self.recipe),
            *self.section("unmeasured", self.unmeasured()),
        ]
        return html_page(heading, "\n".join(body), language=self.language, style=REPORT_STYLE + _STYLE)

    def section(self, name: str, body: str, **params: object) -> list[str]:
        """Return a heading and its content; nothing if there is no content."""
        return [f"<h2>{self.say(f'report.heading.{name}', **params)}</h2>", body] if body else []

    # ---- the verdict ----

    def verdict(self) -> str:
        """Return the sentences of the verdict: the worst tensors, the reason for the first, and a remedy."""
        return text("report.sentence_gap", self.language).join([*self.coverage(), self.measured()])

    def coverage(self) -> list[str]:
        """Return the sentences before the verdict: how much was read, and the weights that are constant."""
        sentences = []
        if words := self.summary.coverage.get(self.language):
            sentences.append(escaped(words))
        elif self.summary.unread:
            unread = self.summary.unread
            names = text("report.between", self.language).join(unread[:_NAMED])
            of = len(self.summary.tensors)
            sentences.append(self.say("report.not_all_read", count=len(unread), of=of, names=names))
        if constant := self.summary.constant:
            names = text("report.between", self.language).join(constant[:_NAMED])
            sentences.append(self.say("report.constant", count=len(constant), names=names))
        return sentences

    def measured(self) -> str:
        """Return which of the measured tensors are worst, and why."""
        worst = self.summary.worst(self.recipe, _NAMED)
        found = next(each for each in self.summary.recipes if each.recipe == self.recipe)
        if not worst:
            return self.say("report.nothing_measured", recipe=self.recipe)
        if worst[0].sqnr_db == math.inf and not self.summary.unread and not self.summary.constant:
            return self.say("report.all_exact", recipe=self.recipe, count=found.measured)
        between = text("report.between", self.language)
        names = between.join(self.say("report.named", tensor=row.tensor, sqnr_db=_db(row)) for row in worst)
        sentences = [
            self.say("report.spread", recipe=self.recipe, count=found.measured, median=_one(found.median)),
            text("report.the_worst", self.language, names=names),
            self.why(worst[0]),
        ]
        better = self.summary.better(worst[0])
        if better:
            bits = "" if better.bits_per_weight is None else number(better.bits_per_weight)
            key = "fix_bits" if bits else "fix"
            sentences.append(self.say(f"report.{key}", recipe=better.recipe, sqnr_db=_db(better), bits=bits))
        return text("report.sentence_gap", self.language).join(filter(None, sentences))

    def why(self, row: Row) -> str:
        """Return a sentence with the reason for a tensor's low SQNR, or "" if its numbers give none."""
        clipped, kurtosis, zeroed = (
            row.number(name) or 0.0 for name in ("clipped_share", "kurtosis", "zeroed_share")
        )
        if clipped >= _CLIPPED:
            return self.say("report.why_clipped", tensor=row.tensor, percent=number(100 * clipped, 3))
        if kurtosis >= _HEAVY:
            return self.say("report.why_heavy", tensor=row.tensor, kurtosis=number(kurtosis, 3))
        if zeroed >= _ZEROED:
            return self.say("report.why_zeroed", tensor=row.tensor, percent=number(100 * zeroed, 3))
        return ""

    # ---- the map ----

    def maps(self) -> list[str]:
        """Return a map for each recipe, that of the chosen one open."""
        kinds = kind_map(self.summary.weights)
        if not kinds.rows:
            return []
        names = [self.recipe, *(each.recipe for each in self.summary.recipes if each.recipe != self.recipe)]
        drawn = [
            f"<h2>{self.say('report.heading.map')}</h2>",
            f'<p class="muted">{self.say("report.map_help")}</p>',
        ]
        for name in names[: max(1, _CELLS // len(kinds.tensors))]:
            opened = " open" if name == self.recipe else ""
            drawn.append(
                f"<details{opened}><summary>{escaped(name)}</summary>"
                f'<div class="wide">{self.map_of(kinds, name)}</div></details>'
            )
        return drawn

    def map_of(self, kinds: KindMap, recipe: str) -> str:
        """Return the map of one recipe: a row for each layer, a column for each kind."""
        rows = self.summary.under(recipe)
        middle = next(each.median for each in self.summary.recipes if each.recipe == recipe)
        head = "".join(f'<th scope="col"><span>{escaped(kind)}</span></th>' for kind in kinds.kinds)
        lines = [
            f'<table class="map"><thead><tr><th>{self.say("report.layer")}</th>{head}</tr></thead><tbody>'
        ]
        columns = {kind: at for at, kind in enumerate(kinds.kinds)}
        by_row: dict[tuple[int, ...], dict[int, Row | None]] = {}
        for (numbers, kind), name in kinds.tensors.items():
            by_row.setdefault(numbers, {})[columns[kind]] = rows.get(name)
        for numbers in kinds.rows:
            row = self.cells(by_row[numbers], len(columns), middle)
            lines.append(f'<tr><th scope="row">{".".join(map(str, numbers))}</th>{row}</tr>')
        lines.append("</tbody></table>")
        others = [rows[name] for name in kinds.others if name in rows and rows[name].sqnr_db is not None]
        if others:
            listed = " · ".join(
                self.say("report.named", tensor=each.tensor, sqnr_db=_db(each)) for each in others
            )
            lines.append(f'<p class="muted">{self.say("report.without_layer")} {listed}</p>')
        return "\n".join(lines)

    def cells(self, row: Mapping[int, Row | None], columns: int, middle: float | None) -> str:
        """Return a row of the map from its tensors by column; a gap between two is one cell."""
        parts = []
        at = 0
        for column in sorted(row):
            parts += [_empty(column - at), self.cell(row[column], middle)]
            at = column + 1
        return "".join([*parts, _empty(columns - at)])

    def cell(self, row: Row | None, middle: float | None) -> str:
        """Return a cell of the map: its SQNR, the more coloured the farther from the median."""
        if row is None:
            return _empty(1)
        if row.sqnr_db is None:
            title = escaped(f"{row.tensor}: {row.reason or text(f'report.{row.status}', self.language)}")
            return f'<td class="none" title="{title}">×</td>'
        title = self.say("report.named", tensor=row.tensor, sqnr_db=_db(row))
        away = row.sqnr_db - middle if middle is not None and math.isfinite(middle) else 0.0
        share = round(min(abs(away) / _FULL_COLOUR, 1.0) * 55) if math.isfinite(away) else 55
        side = "low" if away < 0 else "high"
        shown = number(row.sqnr_db, 2 if abs(row.sqnr_db) < 100 else 3)
        return f'<td class="{side}" style="--w:{share}" title="{title}">{shown}</td>'

    # ---- the tables ----

    def recipes(self) -> str:
        """Return the recipes side by side."""
        names = ("recipe", "bits", "size", "lowest", "median", "measured", "left_aside", "refused", "problem")
        rows = [
            [
                escaped(each.recipe),
                _four(each.bits_per_weight),
                "–" if each.size is None else f"{each.size / 1e6:,.1f}",
                _one(each.lowest),
                _one(each.median),
                *map(str, (each.measured, each.left_aside, each.refused, each.problems)),
            ]
            for each in self.summary.recipes
        ]
        return self.table(names, rows)

    def worst(self) -> str:
        """Return the worst tensors of the chosen recipe, each with a better recipe."""
        names = ("tensor", "sqnr", "max_error", "kurtosis", "clipped", "zeroed", "shape", "better")
        rows = []
        for row in self.summary.worst(self.recipe, WORST):
            better = self.summary.better(row)
            rows.append(
                [
                    self.linked(row.tensor),
                    _one(row.sqnr_db),
                    _four(row.number("max_error")),
                    _three(row.number("kurtosis")),
                    _percent(row.number("clipped_share")),
                    _percent(row.number("zeroed_share")),
                    " × ".join(map(str, row.shape or ())),
                    self.say("report.named", tensor=better.recipe, sqnr_db=_db(better)) if better else "–",
                ]
            )
        return self.table(names, rows) if rows else ""

    def linked(self, tensor: str) -> str:
        """Return a tensor's name, which leads to the Lab where there is an address."""
        return linked(self.links.get(tensor, ""), escaped(tensor).replace(".", ".<wbr>"))

    def unmeasured(self) -> str:
        """Return why tensors were not measured, each reason once with how many there are."""
        found = Counter(
            (row.status, row.reason or text(f"report.{row.status}", self.language), row.recipe)
            for row in self.summary.rows
            if row.status != "ok"
        )
        rows = [
            [escaped(reason), str(count), escaped(recipe), self.say(f"report.{status}")]
            for (status, reason, recipe), count in found.most_common(_REASONS)
        ]
        return self.table(("reason", "count", "recipe", "status"), rows) if rows else ""

    def table(self, names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
        """Return rows of HTML under their headings."""
        headings = [(self.say(f"report.column.{name}"), _KINDS.get(name, "number")) for name in names]
        return html_table(headings, rows)


def _empty(columns: int) -> str:
    """Return a cell over so many columns in which there is nothing."""
    if not columns:
        return ""
    if columns == 1:
        return "<td></td>"
    return f'<td colspan="{columns}"></td>'


def _written(digits: int) -> Callable[[float | None], str]:
    return lambda value: "–" if value is None else number(value, digits)


_three = _written(3)
_four = _written(4)


def _one(value: float | None) -> str:
    """Return decibels with one decimal."""
    if value is None:
        return "–"
    if math.isfinite(value):
        return f"{value:.1f}".replace("-", "−")
    return number(value)


def _db(row: Row) -> str:
    return _one(row.sqnr_db)


def _percent(share: float | None) -> str:
    return "–" if share is None else number(100 * share, 3)
