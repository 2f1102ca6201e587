"""Runs compared as one page of HTML: the verdict, SQNR along the model, the worst tensors, all tensors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from quantviz.export.html_page import REPORT_STYLE, escaped, html_page, html_table
from quantviz.figures.numbers import number
from quantviz.figures.run_pictures import (
    RunPanel,
    decibel_scale,
    run_line,
    run_panels,
)
from quantviz.figures.theme import THEMES
from quantviz.models.run_difference import TensorDifference
from quantviz.models.runs import RunComparison
from quantviz.models.worst_part import WorstPart, worst_part
from quantviz.text import DEFAULT_LANGUAGE, text

#: Pixels of a panel's side at most.
_PIXELS = 240
#: Rows of the table of tensors, and of the table of those that are not compared.
_ROWS = 2000
_NOT_COMPARED = 200
#: Decibels at which a cell has its full colour, and none any more; the most colour, in percent.
_WORST_DB = 0.0
_FINE_DB = 40.0
_FULL = 60

_COLOURS = "".join(f"--run{k}: {light}; " for k, light in enumerate(THEMES["light"].schemes))
_DARK_COLOURS = "".join(f"--run{k}: {dark}; " for k, dark in enumerate(THEMES["dark"].schemes))
_STYLE = (
    f"""
:root {{ {_COLOURS} }}
@media (prefers-color-scheme: dark) {{ :root {{ {_DARK_COLOURS} }} }}
"""
    + """
.muted { color: var(--muted); }
.verdict p { margin: 0; }
.verdict div + div { margin-top: .6rem; }
h2 { overflow-wrap: anywhere; }
.ops { display: flex; flex-wrap: wrap; gap: 0 3rem; }
.ops > div { max-width: 100%; }
.chart { display: grid; grid-template-columns: auto 1fr; gap: .4rem; margin-top: .6rem;
  font-size: var(--qv-12); }
.scale { position: relative; width: 2.2rem; color: var(--muted); }
.scale span { position: absolute; right: 0; transform: translateY(-50%); line-height: 1; }
.plot { position: relative; height: 16rem; border: 1px solid var(--line); border-width: 0 0 1px 1px; }
.plot svg { position: absolute; inset: 0; width: 100%; height: 100%; overflow: visible; }
.plot path { fill: none; stroke-width: 2px; vector-effect: non-scaling-stroke; }
.plot line { stroke: var(--line); stroke-width: 1px; vector-effect: non-scaling-stroke; opacity: .5; }
.plot i { position: absolute; width: .7rem; height: .7rem; margin: -.35rem; border-radius: 50%;
  border: 2px solid var(--surface); }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; margin: .4rem 0; font-size: var(--qv-12); }
.legend b { display: inline-block; width: 1.1rem; height: .25rem; margin-right: .4rem;
  vertical-align: middle; }
.panels { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(9.5rem, 45%), 1fr)); gap: 1rem;
  margin-top: .6rem; }
.panels figure { margin: 0; min-width: 0; }
.panels figcaption { font-size: var(--qv-12); overflow-wrap: anywhere; }
.panels img { display: block; width: 100%; image-rendering: pixelated; margin: .25rem 0;
  outline: 1px solid var(--line); }
.bar { display: flex; justify-content: space-between; font-size: var(--qv-12); color: var(--muted);
  font-variant-numeric: tabular-nums; }
.ramp { display: block; height: .35rem; }
.ramp.dark { display: none; }
@media (prefers-color-scheme: dark) { .ramp.dark { display: block; } .ramp.light { display: none; } }
.tensors th, .tensors td.shape { white-space: nowrap; }
.tensors td.name { overflow-wrap: anywhere; min-width: min(16rem, 40vw); }
.tensors td.low { background: color-mix(in srgb, #c8591b calc(var(--w) * 1%), var(--surface)); }
.tensors .first { border-left: 1px solid var(--line); }
.tensors tr.jump td:first-child { box-shadow: inset 3px 0 0 #c8591b; }
"""
)


def runs_html(
    comparison: RunComparison, *, title: str | None = None, language: str = DEFAULT_LANGUAGE
) -> str:
    """Return a comparison as one page that needs no other file and runs no script.

    The values of the worst tensors are read from the files once more.

    Raises:
        QuantVizError: A file cannot be read any more.
    """
    page = _Page(comparison, language)
    verdicts = (comparison.messages_of(label, language) for label in comparison.labels)
    sentences = "".join(
        f"<div>{''.join(f'<p>{escaped(each)}</p>' for each in own)}</div>" for own in verdicts
    )
    subtitle = page.say(
        "runs_report.subtitle", reference=comparison.reference, runs=", ".join(comparison.labels)
    )
    heading = title or text("runs_report.title", language)
    body = [
        f"<h1>{escaped(heading)}</h1>",
        f'<p class="muted">{subtitle}</p>',
        f'<div class="verdict">{sentences}</div>',
        *page.chart(),
        *page.worst(),
        *page.logits(),
        *page.by_op(),
        *page.tensors(),
        *page.not_compared(),
    ]
    return html_page(heading, "\n".join(body), language=language, style=REPORT_STYLE + _STYLE)


class _Page:
    """The parts of the page. Names are escaped where they are put into words."""

    def __init__(self, comparison: RunComparison, language: str) -> None:
        self.comparison = comparison
        self.language = language
        self.several = len(comparison.labels) > 1
        self.jumps = {
            label: jump.tensor for label in comparison.labels if (jump := comparison.jump(label)) is not None
        }

    def say(self, key: str, /, **params: object) -> str:
        """Return a sentence as HTML."""
        shown = {name: escaped(value) for name, value in params.items()}
        return text(key, self.language, **shown)

    # ---- SQNR along the model ----

    def chart(self) -> Iterator[str]:
        """Yield SQNR by tensor, a line for each run."""
        comparison = self.comparison
        names = [each.name for each in comparison.of(comparison.labels[0]) if each.status != "extra"]
        by_run = {
            label: {each.name: each for each in comparison.compared(label)} for label in comparison.labels
        }
        numbers = [each.sqnr_db for own in by_run.values() for each in own.values()]
        if not names or not any(map(math.isfinite, numbers)):
            return
        scale = decibel_scale(numbers)
        lines = "".join(
            f'<line x1="0" x2="1" y1="{scale.height(db):.4g}" y2="{scale.height(db):.4g}"/>'
            for db in scale.lines
        )
        paths = []
        marks = []
        for k, (label, own) in enumerate(by_run.items()):
            colour = f"var(--run{k % len(THEMES['light'].schemes)})"
            of_names = [own[name].sqnr_db if name in own else math.nan for name in names]
            paths.append(f'<path d="{run_line(of_names, scale)}" style="stroke:{colour}"/>')
            jump = self.jumps.get(label)
            if jump is not None:
                left = (names.index(jump.name) + 0.5) / len(names)
                top = scale.height(jump.sqnr_db)
                words = self.say("runs_report.jump_mark", run=label, tensor=jump.name)
                marks.append(
                    f'<i style="left:{left:.3%};top:{top:.3%};background:{colour}" title="{words}"></i>'
                )
        ticks = "".join(
            f'<span style="top:{scale.height(db):.3%}">{number(db, 3)}</span>' for db in scale.lines
        )
        if math.inf in numbers:
            ticks += f'<span style="top:0" title="{self.say("runs_report.exact")}">=</span>'
        yield f"<h2>{self.say('runs_report.chart')}</h2>"
        yield f'<p class="muted">{self.say("runs_report.chart_help")}</p>'
        yield from self._legend()
        yield (
            f'<div class="chart"><div class="scale">{ticks}</div><div class="plot" role="img" '
            f'aria-label="{self.say("runs_report.chart_alt")}">'
            '<svg viewBox="0 0 1 1" preserveAspectRatio="none">'
            f"{lines}{''.join(paths)}</svg>{''.join(marks)}</div></div>"
        )

    def _legend(self) -> Iterator[str]:
        marks = []
        for k, label in enumerate(self.comparison.labels):
            jump = self.jumps.get(label)
            words = (
                escaped(label)
                if jump is None
                else self.say("runs_report.jump_mark", run=label, tensor=jump.name)
            )
            colour = f"var(--run{k % len(THEMES['light'].schemes)})"
            if self.several or jump is not None:
                marks.append(f'<span><b style="background:{colour}"></b>{words}</span>')
        if marks:
            yield f'<div class="legend">{"".join(marks)}</div>'

    # ---- the worst tensors ----

    def worst(self) -> Iterator[str]:
        """Yield the four panels of each run's worst tensor."""
        for label in self.comparison.labels:
            part = worst_part(self.comparison, label, _PIXELS)
            if part is None:
                continue
            tensor = part.tensor
            facts = [
                self.say(
                    "runs_report.worst_help",
                    op=tensor.op or "–",
                    shape=_shape(tensor.shape),
                    max_error=number(tensor.max_error, 3),
                    place=", ".join(map(str, tensor.max_error_at)),
                )
            ]
            if part.held:
                facts.append(self.say("runs_report.held", held=", ".join(map(str, part.held))))
            if part.matrix != part.error.shape:
                facts.append(self.say("runs_report.pixels", rows=part.matrix[0], cols=part.matrix[1]))
            if all(part.axes):
                facts.append(self.say("runs_report.axes", rows=part.axes[0], cols=part.axes[1]))
            yield f"<h2>{self.say('runs_report.worst', run=label, tensor=tensor.name)}</h2>"
            gap = text("report.sentence_gap", self.language)
            yield f'<p class="muted">{gap.join(facts)}</p>'
            yield f'<div class="panels">{"".join(self._panels(part, label))}</div>'

    def _panels(self, part: WorstPart, label: str) -> Iterator[str]:
        labels = {"reference": self.comparison.reference}
        for panel in run_panels(part):
            words = self.say(f"runs_report.panel.{panel.name}", label=labels.get(panel.name, label))
            low, high = (number(end, 3) for end in panel.span)
            yield (
                f"<figure><figcaption>{words}</figcaption>{_picture(panel, words)}"
                f'{_ramp(panel, "light")}{_ramp(panel, "dark")}<div class="bar">'
                f"<span>{low}</span><span>{high}</span></div></figure>"
            )

    # ---- tables ----

    def logits(self) -> Iterator[str]:
        """Yield KL and the share of equal first choices, where there are logits."""
        rows = [
            [_name(each.name), escaped(each.run), number(each.kl, 4), f"{100 * each.same_top:.4g} %"]
            for each in self.comparison.differences
            if not math.isnan(each.kl)
        ]
        if rows:
            yield f"<h2>{self.say('runs_report.logits')}</h2>"
            yield html_table(self._headings("tensor", "run", "kl", "same_top"), rows)

    def by_op(self) -> Iterator[str]:
        """Yield the lowest SQNR and the largest error of each operation, the runs side by side."""
        tables = []
        for label in self.comparison.labels:
            rows = [
                [escaped(each.op or "–"), str(each.tensors), _db(each.sqnr_db), _number(each.max_error)]
                for each in self.comparison.by_op(label)
            ]
            table = html_table(self._headings("op", "count", "lowest", "max_error"), rows)
            tables.append(f"<div><p><b>{escaped(label)}</b></p>{table}</div>" if self.several else table)
        yield f"<h2>{self.say('runs_report.by_op')}</h2>"
        yield f'<div class="ops">{"".join(tables)}</div>'

    def tensors(self) -> Iterator[str]:
        """Yield all tensors of the reference, in the order of execution, the runs side by side."""
        by_name: dict[str, dict[str, TensorDifference]] = {}
        for each in self.comparison.differences:
            if each.status != "extra":
                by_name.setdefault(each.name, {})[each.run] = each
        heading = "tensors" if self.comparison.is_ordered else "names"
        yield f"<h2>{self.say(f'runs_report.{heading}')}</h2>"
        labels = self.comparison.labels
        first = "".join(
            f'<th scope="col" rowspan="2">{self.say(f"runs_report.column.{name}")}</th>'
            for name in ("tensor", "op", "shape")
        )
        runs = "".join(
            f'<th scope="colgroup" colspan="3" class="first">{escaped(label)}</th>' for label in labels
        )
        under = "".join(
            f'<th scope="col" class="number{" first" if name == "sqnr_db" else ""}">'
            f"{self.say(f'runs_report.column.{name}')}</th>"
            for name in ("sqnr_db", "cosine", "max_error")
        )
        jumping = {each.name for each in self.jumps.values()}
        body = []
        for name, own in list(by_name.items())[:_ROWS]:
            any_run = next(iter(own.values()))
            marked = ' class="jump"' if name in jumping else ""
            cells = "".join(self._cells(own[label]) for label in labels)
            body.append(
                f'<tr{marked}><td class="name">{_name(name)}</td><td>{escaped(any_run.op or "–")}</td>'
                f'<td class="shape">{_shape(any_run.shape)}</td>{cells}</tr>'
            )
        yield (
            f'<div class="wide"><table class="tensors"><thead><tr>{first}{runs}</tr>'
            f"<tr>{under * len(labels)}</tr></thead><tbody>\n" + "\n".join(body) + "</tbody></table></div>"
        )
        if len(by_name) > _ROWS:
            yield f"<p>{self.say('runs_report.more', count=f'{len(by_name) - _ROWS:,}')}</p>"

    def _cells(self, each: TensorDifference) -> str:
        if not each.is_compared:
            shapes = {"shape": _shape(each.shape), "run_shape": _shape(each.run_shape)}
            reason = text(f"runs.reasons.{each.status}", self.language, count=each.not_finite, **shapes)
            return f'<td colspan="3" class="first muted">{escaped(reason)}</td>'
        # A tensor all of whose values were left out, or that has none, has no number.
        depth = 0.0 if math.isnan(each.sqnr_db) else (_FINE_DB - each.sqnr_db) / (_FINE_DB - _WORST_DB)
        share = round(_FULL * min(max(depth, 0), 1))
        low = f' low" style="--w:{share}' if share else ""
        return (
            f'<td class="number first{low}">{_db(each.sqnr_db)}</td>'
            f'<td class="number">{"–" if math.isnan(each.cosine) else f"{each.cosine:.5f}"}</td>'
            f'<td class="number">{_number(each.max_error)}</td>'
        )

    def not_compared(self) -> Iterator[str]:
        """Yield the tensors without numbers, with the reason."""
        rows = [row for row in self.comparison.rows(self.language) if row["status"] != "compared"]
        if rows:
            cells = (
                [_name(row["tensor"]), escaped(row["op"] or "–"), escaped(row["run"]), escaped(row["reason"])]
                for row in rows[:_NOT_COMPARED]
            )
            yield f"<h2>{self.say('runs_report.not_compared')}</h2>"
            yield html_table(self._headings("tensor", "op", "run", "reason"), cells)
        if len(rows) > _NOT_COMPARED:
            yield f"<p>{self.say('runs_report.more', count=f'{len(rows) - _NOT_COMPARED:,}')}</p>"

    def _headings(self, *names: str) -> list[tuple[str, str]]:
        words = ("tensor", "op", "run", "shape", "reason")
        return [(self.say(f"runs_report.column.{name}"), "" if name in words else "number") for name in names]


def _picture(panel: RunPanel, words: str) -> str:
    style = f"aspect-ratio:{panel.aspect:.4g}"
    return (
        f'<picture><source media="(prefers-color-scheme: dark)" srcset="{panel.pictures["dark"]}">'
        f'<img src="{panel.pictures["light"]}" alt="{words}" style="{style}"></picture>'
    )


def _ramp(panel: RunPanel, theme: str) -> str:
    colours = ", ".join(panel.ramps[theme])
    return f'<span class="ramp {theme}" style="background:linear-gradient(90deg, {colours})"></span>'


def _name(name: str) -> str:
    return escaped(name).replace(".", ".<wbr>").replace("/", "/<wbr>")


def _shape(shape: Sequence[int] | Iterable[int]) -> str:
    return " × ".join(map(str, shape)) or "1"


def _db(value: float) -> str:
    """Return decibels of a cell; "=" without error."""
    if value == math.inf:
        return "="
    return "–" if math.isnan(value) else f"{value:.1f}".replace("-", "−")


def _number(value: float, digits: int = 3) -> str:
    return "–" if math.isnan(value) else number(value, digits)
