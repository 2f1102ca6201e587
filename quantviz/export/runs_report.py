"""Runs compared as one page of HTML: the verdict, SQNR along the model, the worst tensors, all tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from quantviz.export.html_page import breakable, fixed, html_page, shortly
from quantviz.figures.numbers import number
from quantviz.figures.run_pictures import (
    decibel_scale,
    run_line,
    run_panels,
)
from quantviz.figures.theme import THEMES
from quantviz.models.run_difference import TensorDifference
from quantviz.models.runs import RunComparison, compare_runs
from quantviz.models.worst_part import worst_part
from quantviz.text import DEFAULT_LANGUAGE, text

#: Pixels of a panel's side at most.
_PIXELS = 240
#: Rows of the table of tensors, and of the table of those that are not compared.
_ROWS = 2000
_NOT_COMPARED = 200
#: Decibels of full colour and of none; percent of full colour.
_WORST_DB = 0.0
_FINE_DB = 40.0
_FULL = 60
#: Numbers of logits; perplexities are there where tokens were given.
_OF_LOGITS = ("kl", "kl_median", "kl_99", "kl_max", "perplexity", "reference_perplexity")
#: Columns of words.
_OF_WORDS = ("tensor", "op", "run", "shape", "reason")


def report_of_runs(files: list[str], language: str) -> str:
    reference, *others = files
    return runs_html(compare_runs(reference, others), language=language)


def runs_html(
    comparison: RunComparison, *, title: str | None = None, language: str = DEFAULT_LANGUAGE
) -> str:
    """Return a comparison as one page that needs no other file and runs no script.

    The values of the worst tensors are read from the files once more.

    Raises:
        QuantVizError: A file cannot be read any more.
    """
    labels = comparison.labels
    jumps = {label: jump.tensor for label in labels if (jump := comparison.jump(label)) is not None}

    def say(key: str, /, **params: object) -> str:
        return text(key, language, **params)

    def headings(*names: str) -> list[tuple[str, str]]:
        return [(say(f"runs_report.column.{name}"), "" if name in _OF_WORDS else "number") for name in names]

    tensors = list(_tensors(comparison, language))
    of_logits, logits = _logits(comparison)
    not_compared = [row for row in comparison.rows(language) if row["status"] != "compared"]
    return html_page(
        "runs",
        language=language,
        title=title or say("runs_report.title"),
        reference=comparison.reference,
        labels=labels,
        several=len(labels) > 1,
        is_ordered=comparison.is_ordered,
        colours={name: theme.schemes for name, theme in THEMES.items()},
        colour_of={label: f"var(--run{k % len(THEMES['light'].schemes)})" for k, label in enumerate(labels)},
        headings=headings,
        verdicts=[comparison.messages_of(label, language) for label in labels],
        jumps=jumps,
        jumping={diff.name for diff in jumps.values()},
        marks={
            label: say("runs_report.jump_mark", run=label, tensor=diff.name) for label, diff in jumps.items()
        },
        chart=_chart(comparison, jumps),
        worst=list(_worst(comparison, say, text("report.sentence_gap", language))),
        logits=logits,
        logits_headings=headings("tensor", "run", *of_logits, "same_top"),
        by_op=[
            [
                (op.op or "–", op.tensors, fixed(op.sqnr_db, exact="="), shortly(op.max_error))
                for op in comparison.by_op(label)
            ]
            for label in labels
        ],
        tensors=tensors[:_ROWS],
        tensors_left_out=len(tensors) - _ROWS,
        not_compared=[
            (breakable(row["tensor"]), row["op"] or "–", row["run"], row["reason"])
            for row in not_compared[:_NOT_COMPARED]
        ],
        not_compared_left_out=len(not_compared) - _NOT_COMPARED,
    )


def _logits(comparison: RunComparison) -> tuple[list[str], list[tuple[str, ...]]]:
    """Return the names of numbers that some tensor of logits has, and a row for each such tensor."""
    differences = [diff for diff in comparison.differences if not math.isnan(diff.kl)]
    numbers = [asdict(diff.logits) for diff in differences]
    names = [name for name in _OF_LOGITS if any(not math.isnan(row[name]) for row in numbers)]
    rows = [
        (
            breakable(diff.name),
            diff.run,
            *(number(row[name], 4) for name in names),
            f"{100 * row['same_top']:.4g} %",
        )
        for diff, row in zip(differences, numbers, strict=True)
    ]
    return names, rows


def _chart(comparison: RunComparison, jumps: Mapping[str, TensorDifference]) -> dict[str, Any]:
    """Return SQNR by tensor, a line for each run; {} where no number is finite."""
    names = [diff.name for diff in comparison.of(comparison.labels[0]) if diff.status != "extra"]
    by_run = {label: {diff.name: diff for diff in comparison.compared(label)} for label in comparison.labels}
    numbers = [diff.sqnr_db for by_name in by_run.values() for diff in by_name.values()]
    if not names or not any(map(math.isfinite, numbers)):
        return {}
    scale = decibel_scale(numbers)
    return {
        "ticks": [(scale.height(db), number(db, 3)) for db in scale.lines],
        "has_exact": math.inf in numbers,
        "paths": [
            (
                label,
                run_line([by_name[name].sqnr_db if name in by_name else math.nan for name in names], scale),
            )
            for label, by_name in by_run.items()
        ],
        "marks": [
            (label, (names.index(jump.name) + 0.5) / len(names), scale.height(jump.sqnr_db))
            for label, jump in jumps.items()
        ],
    }


def _worst(
    comparison: RunComparison, say: Callable[..., str], gap: str
) -> Iterator[tuple[str, str, str, list[tuple[object, ...]]]]:
    """Yield the four panels of each run's worst tensor, with its facts in words."""
    for label in comparison.labels:
        part = worst_part(comparison, label, _PIXELS)
        if part is None:
            continue
        tensor = part.tensor
        place = ", ".join(map(str, tensor.max_error_at))
        named = {"op": tensor.op or "–", "shape": _shape(tensor.shape), "place": place}
        facts = [say("runs_report.worst_help", max_error=number(tensor.max_error, 3), **named)]
        if part.held:
            facts.append(say("runs_report.held", held=", ".join(map(str, part.held))))
        if part.matrix != part.error.shape:
            facts.append(say("runs_report.pixels", rows=part.matrix[0], cols=part.matrix[1]))
        if all(part.axes):
            facts.append(say("runs_report.axes", rows=part.axes[0], cols=part.axes[1]))
        labels = {"reference": comparison.reference}
        panels = [
            (
                say(f"runs_report.panel.{panel.name}", label=labels.get(panel.name, label)),
                panel,
                *(number(end, 3) for end in panel.span),
            )
            for panel in run_panels(part)
        ]
        yield label, tensor.name, gap.join(facts), panels


def _tensors(
    comparison: RunComparison, language: str
) -> Iterator[tuple[str, str, str, list[dict[str, Any]]]]:
    by_name: dict[str, dict[str, TensorDifference]] = {}
    for diff in comparison.differences:
        if diff.status != "extra":
            by_name.setdefault(diff.name, {})[diff.run] = diff
    for name, by_run in by_name.items():
        any_run = next(iter(by_run.values()))
        cells = [_cells(by_run[label], language) for label in comparison.labels]
        yield name, any_run.op or "–", _shape(any_run.shape), cells


def _cells(diff: TensorDifference, language: str) -> dict[str, Any]:
    if not diff.is_compared:
        shapes = {"shape": _shape(diff.shape), "run_shape": _shape(diff.run_shape)}
        return {"reason": text(f"runs.reasons.{diff.status}", language, count=diff.not_finite, **shapes)}
    # A tensor all of whose values were left out, or that has none, has no number.
    depth = 0.0 if math.isnan(diff.sqnr_db) else (_FINE_DB - diff.sqnr_db) / (_FINE_DB - _WORST_DB)
    return {
        "reason": "",
        "share": round(_FULL * min(max(depth, 0), 1)),
        "sqnr_db": fixed(diff.sqnr_db, exact="="),
        "cosine": fixed(diff.cosine, 5),
        "max_error": shortly(diff.max_error),
    }


def _shape(shape: Iterable[int]) -> str:
    return " × ".join(map(str, shape)) or "1"
