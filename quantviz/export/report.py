"""A scan's table as one page of HTML: its findings, a map, the recipes and the worst tensors."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from quantviz.checkpoints.model.tensor_names import KindMap, kind_map
from quantviz.checkpoints.results.rows import ResultRow
from quantviz.errors import QuantVizError, known_language
from quantviz.export.audit_report import audit_html, markdown_table, plain
from quantviz.export.html_page import MapCell, breakable, fixed, html_page, linked, shortly
from quantviz.export.scan_summary import ScanSummary, summary_of
from quantviz.figures.numbers import number
from quantviz.public_calls import public
from quantviz.quoting import latex_text
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
_RECIPES = ("recipe", "bits", "size", "lowest", "median", "measured", "left_aside", "refused", "problem")
_WORST_COLUMNS = ("tensor", "sqnr", "max_error", "kurtosis", "clipped", "zeroed", "shape", "better")
_UNMEASURED = ("reason", "count", "recipe", "status")


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
    names = [recipe_summary.recipe for recipe_summary in summary.recipes]
    if recipe is not None and recipe not in names:
        raise QuantVizError("unknown_recipe", got=recipe, known=", ".join(names))
    return _put(_ReportPage(summary, recipe or names[0], language, links or {}).written(title, {}), path)


def scan_html(
    table: Any, live: Mapping[str, Any], *, title: str, language: str, links: Mapping[str, str]
) -> str:
    """Return the page of `report` for a scan's table, with tensors that can be quantized anew in it: `live`
    has the values of `live_scripts.html`, {} where there are no such tensors.
    """
    summary = summary_of(table, language)
    return _ReportPage(summary, summary.recipes[0].recipe, language, links).written(title, live)


def scan_markdown(table: Any, *, title: str | None = None, language: str = DEFAULT_LANGUAGE) -> str:
    """Return a scan's table as Markdown for a pull request: the verdict, the recipes, the worst tensors."""
    summary = summary_of(table, language)
    page = _ReportPage(summary, summary.recipes[0].recipe, language, {})
    parts = [f"# {plain(title or page.say('report.title'))}", plain(page.verdict())]
    for name, columns, rows in (
        ("recipes", _RECIPES, page.recipes()),
        ("worst", _WORST_COLUMNS, page.worst(str)),
    ):
        headings = [(page.say(f"report.column.{column}"), column not in _KINDS) for column in columns]
        parts.append(f"## {page.say(f'report.heading.{name}', recipe=page.recipe)}")
        parts.append(markdown_table(headings, (map(str, row) for row in rows)))
    return "\n\n".join(parts) + "\n"


def scan_latex(table: Any, *, title: str | None = None, language: str = DEFAULT_LANGUAGE) -> str:
    """Return a scan's table as LaTeX by the package booktabs: a line for each recipe, with its SQNR as mean ±
    standard deviation over the measured tensors, where no error is 0.
    """
    summary = summary_of(table, language)
    page = _ReportPage(summary, summary.recipes[0].recipe, language, {})
    heads = [page.say(f"report.column.{name}") for name in ("recipe", "bits", "measured", "sqnr", "lowest")]
    rows = []
    for each in summary.recipes:
        found = [row.sqnr_db for row in summary.under(each.recipe).values() if row.sqnr_db is not None]
        spread = "–"
        if len(found) > 1 and max(found) < math.inf:
            spread = f"{fixed(statistics.fmean(found))} ± {fixed(statistics.stdev(found))}"
        bits = fixed(each.bits_per_weight, 2)
        rows.append((each.recipe, bits, str(each.measured), spread, fixed(each.lowest)))
    caption = f"{title or page.say('report.title')}. {page.say('report.latex_caption')}"
    written = [" & ".join(map(latex_text, row)) + r" \\" for row in (heads, *rows)]
    lines = [
        r"% \usepackage{booktabs}",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{latex_text(caption)}}}",
        r"\begin{tabular}{lrrrr}",
        r"\toprule",
        written[0],
        r"\midrule",
        *written[1:],
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _put(page: str, path: str | PurePath | None) -> str:
    if path is not None:
        write_file(path, page)
    return page


class _ReportPage:
    def __init__(self, summary: ScanSummary, recipe: str, language: str, links: Mapping[str, str]) -> None:
        self.summary = summary
        self.recipe = recipe
        self.language = language
        self.links = links

    def say(self, key: str, /, **params: object) -> str:
        return text(key, self.language, **params)

    def written(self, title: str | None, live: Mapping[str, Any]) -> str:
        kinds = kind_map(self.summary.weights)
        maps = list(self.maps(kinds)) if kinds.rows else []
        reasons = list(self.unmeasured())
        return html_page(
            "scan",
            language=self.language,
            title=title or self.say("report.title"),
            counts=self.say(
                "report.counts", tensors=len(self.summary.tensors), recipes=len(self.summary.recipes)
            ),
            verdict=self.verdict(),
            notes=self.summary.notes,
            recipe=self.recipe,
            kinds=kinds.kinds,
            maps=maps,
            maps_left_out=len(self.summary.recipes) - len(maps) if maps else 0,
            tables=[
                self.table("recipes", _RECIPES, self.recipes()),
                self.table("worst", _WORST_COLUMNS, self.worst(self.linked)),
                self.table("unmeasured", _UNMEASURED, reasons[:_REASONS]),
            ],
            reasons_left_out=max(0, len(reasons) - _REASONS),
            **live,
        )

    # ---- the verdict ----

    def verdict(self) -> str:
        return self.say("report.sentence_gap").join([*self.coverage(), self.measured()])

    def coverage(self) -> Iterator[str]:
        """Yield the sentences before the verdict: unread tensors, and constant weights."""
        unread, constant = self.summary.unread, self.summary.constant
        between = self.say("report.between")
        if words := self.summary.coverage.get(self.language):
            yield words
        elif unread:
            names = between.join(unread[:_NAMED])
            yield self.say(
                "report.not_all_read", count=len(unread), of=len(self.summary.tensors), names=names
            )
        if constant:
            yield self.say("report.constant", count=len(constant), names=between.join(constant[:_NAMED]))

    def measured(self) -> str:
        """Return the worst of the measured tensors, the reason for the first, and a remedy."""
        worst = self.summary.worst(self.recipe, _NAMED)
        spread = next(summary for summary in self.summary.recipes if summary.recipe == self.recipe)
        if not worst:
            return self.say("report.nothing_measured", recipe=self.recipe)
        if worst[0].sqnr_db == math.inf and not self.summary.unread and not self.summary.constant:
            return self.say("report.all_exact", recipe=self.recipe, count=spread.measured)
        names = self.say("report.between").join(map(self.named, worst))
        sentences = [
            self.say("report.spread", recipe=self.recipe, count=spread.measured, median=fixed(spread.median)),
            self.say("report.the_worst", names=names),
            self.why(worst[0]),
        ]
        better = self.summary.better(worst[0])
        if better:
            bits = "" if better.bits_per_weight is None else number(better.bits_per_weight)
            key = "fix_bits" if bits else "fix"
            sentences.append(
                self.say(f"report.{key}", recipe=better.recipe, sqnr_db=fixed(better.sqnr_db), bits=bits)
            )
        return self.say("report.sentence_gap").join(filter(None, sentences))

    def named(self, row: ResultRow) -> str:
        return self.say("report.named", tensor=row.tensor, sqnr_db=fixed(row.sqnr_db))

    def why(self, row: ResultRow) -> str:
        """Return the reason for a tensor's low SQNR; "" if its numbers give none."""
        if (clipped := row.number("clipped_share") or 0.0) >= _CLIPPED:
            return self.say("report.why_clipped", tensor=row.tensor, percent=number(100 * clipped, 3))
        if (kurtosis := row.number("kurtosis") or 0.0) >= _HEAVY:
            return self.say("report.why_heavy", tensor=row.tensor, kurtosis=number(kurtosis, 3))
        if (zeroed := row.number("zeroed_share") or 0.0) >= _ZEROED:
            return self.say("report.why_zeroed", tensor=row.tensor, percent=number(100 * zeroed, 3))
        return ""

    # ---- the map ----

    def maps(self, kinds: KindMap) -> Iterator[tuple[str, list[tuple[str, list[MapCell]]], list[str]]]:
        """Yield a map for each recipe, that of the chosen one first: a row for each layer, and the others."""
        columns = {kind: at for at, kind in enumerate(kinds.kinds)}
        names = [
            self.recipe,
            *(summary.recipe for summary in self.summary.recipes if summary.recipe != self.recipe),
        ]
        for recipe in names[: max(1, _CELLS // len(kinds.tensors))]:
            by_name = self.summary.under(recipe)
            middle = next(summary.median for summary in self.summary.recipes if summary.recipe == recipe)
            by_row: dict[tuple[int, ...], dict[int, ResultRow | None]] = {}
            for (numbers, kind), name in kinds.tensors.items():
                by_row.setdefault(numbers, {})[columns[kind]] = by_name.get(name)
            rows = [
                (".".join(map(str, numbers)), list(self.cells(by_row[numbers], len(columns), middle)))
                for numbers in kinds.rows
            ]
            others = (by_name[name] for name in kinds.others if name in by_name)
            yield recipe, rows, [self.named(row) for row in others if row.sqnr_db is not None]

    def cells(
        self, row: Mapping[int, ResultRow | None], columns: int, middle: float | None
    ) -> Iterator[MapCell]:
        """Yield a row of the map from its tensors by column; a gap between two is one cell."""
        at = 0
        for column in sorted(row):
            if column > at:
                yield MapCell(columns=column - at)
            yield self.cell(row[column], middle)
            at = column + 1
        if columns > at:
            yield MapCell(columns=columns - at)

    def cell(self, row: ResultRow | None, middle: float | None) -> MapCell:
        """Return a cell of the map: its SQNR, the more coloured the farther from the median."""
        if row is None:
            return MapCell()
        if row.sqnr_db is None:
            return MapCell("×", f"{row.tensor}: {row.reason or self.say(f'report.{row.status}')}", "none")
        away = row.sqnr_db - middle if middle is not None and math.isfinite(middle) else 0.0
        share = round(min(abs(away) / _FULL_COLOUR, 1.0) * 55) if math.isfinite(away) else 55
        shown = number(row.sqnr_db, 2 if abs(row.sqnr_db) < 100 else 3)
        return MapCell(shown, self.named(row), "low" if away < 0 else "high", share)

    # ---- the tables ----

    def table(self, name: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> tuple[Any, ...]:
        headings = [(self.say(f"report.column.{column}"), _KINDS.get(column, "number")) for column in columns]
        return name, headings, list(rows)

    def recipes(self) -> Iterator[Sequence[object]]:
        for recipe in self.summary.recipes:
            size = "–" if recipe.size is None else f"{recipe.size / 1e6:,.1f}"
            bits, lowest, median = (
                shortly(recipe.bits_per_weight, 4),
                fixed(recipe.lowest),
                fixed(recipe.median),
            )
            counts = recipe.measured, recipe.left_aside, recipe.refused, recipe.problems
            yield recipe.recipe, bits, size, lowest, median, *counts

    def linked(self, tensor: str) -> str:
        return linked(self.links.get(tensor, ""), breakable(tensor, "."))

    def worst(self, shown: Callable[[str], str]) -> Iterator[Sequence[object]]:
        for row in self.summary.worst(self.recipe, WORST):
            better = self.summary.better(row)
            yield (
                shown(row.tensor),
                fixed(row.sqnr_db),
                shortly(row.number("max_error"), 4),
                shortly(row.number("kurtosis")),
                _percent(row.number("clipped_share")),
                _percent(row.number("zeroed_share")),
                " × ".join(map(str, row.shape or ())),
                self.say("report.named", tensor=better.recipe, sqnr_db=fixed(better.sqnr_db))
                if better
                else "–",
            )

    def unmeasured(self) -> Iterator[Sequence[object]]:
        """Yield why tensors were not measured: each reason once, with its count."""
        counts = Counter(
            (row.status, row.reason or self.say(f"report.{row.status}"), row.recipe)
            for row in self.summary.rows
            if row.status != "ok"
        )
        for (status, reason, recipe), count in counts.most_common():
            yield reason, count, recipe, self.say(f"report.{status}")


def _percent(share: float | None) -> str:
    return "–" if share is None else number(100 * share, 3)
