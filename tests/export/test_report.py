"""A scan's table as one page: it says what the table says, and a name in it is nothing but text."""

import html
import math
import re
import statistics

import pandas
import pytest

import quantviz as qv
from quantviz.export import report as report_module
from quantviz.export.report import scan_latex
from quantviz.export.scan_summary import summary_of
from quantviz.text import languages, text

HOSTILE = "model.layers.0.<img src=x onerror=alert(1)>\u202e.weight"


def row(tensor, recipe, sqnr_db, status="ok", **more):
    fits = status == "ok"
    return {
        "tensor": tensor,
        "recipe": recipe,
        "status": status,
        "reason": None if fits else "<b>why</b>",
        "shape": (64, 32),
        "content": more.get("content", tensor),
        "bits": {"int4_g32": 4.5, "int8_per_row": 9.0}[recipe] * 64 * 32 if fits else None,
        "sqnr_db": sqnr_db,
        "max_error": 0.125,
        "kurtosis": 3.0,
        **more,
    }


ROWS = [
    row("model.layers.0.q.weight", "int4_g32", 20.0),
    row("model.layers.1.q.weight", "int4_g32", 8.25, kurtosis=250.0),
    row(HOSTILE, "int4_g32", 21.0),
    row("embed.weight", "int4_g32", 22.0),
    row("head.weight", "int4_g32", 22.0, content="embed.weight"),
    row("norm.weight", "int4_g32", math.nan, status="refused", kurtosis=math.nan, max_error=math.nan),
    row("model.layers.0.q.bias", "int4_g32", math.nan, status="left_aside", reason="A bias."),
    row("model.layers.1.q.weight", "int8_per_row", 31.5, kurtosis=250.0),
    row("model.layers.0.q.weight", "int8_per_row", math.inf, kurtosis=math.nan),
]


def words(page):
    """What a reader sees of a page, or of a part of it."""
    body = page.rpartition("<body>")[2].replace("<wbr>", "")
    return html.unescape(re.sub(r"<[^>]*>", " ", body))


@pytest.mark.parametrize("table", [ROWS, pandas.DataFrame(ROWS)], ids=["records", "frame"])
def test_it_tells_the_worst_why_and_what_would_help(table, tmp_path):
    page = qv.report(table, tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == page
    verdict = words(page.partition('class="verdict">')[2].partition("</p>")[0])
    assert verdict == (
        "Under int4_g32 the median SQNR of 5 tensors is 21.0 dB. The worst: "
        "model.layers.1.q.weight (8.2 dB), model.layers.0.q.weight (20.0 dB), "
        "model.layers.0.<img src=x onerror=alert(1)>\\u202e.weight (21.0 dB). "
        "model.layers.1.q.weight has a kurtosis of 250 (a Gaussian has 3): "
        "a few large values set the scale of all others. "
        "int8_per_row would give it 31.5 dB, at 9 bits per weight."
    )
    assert "<b>why</b>" in words(page)
    # What is left aside has no square, and its reason is told.
    assert "A bias." in words(page)
    assert "q.bias" not in page


@pytest.mark.parametrize(("bound", "shown"), [("_CELLS", 1), ("_REASONS", 1)])
def test_maps_and_reasons_beyond_a_bound_are_counted(monkeypatch, bound, shown):
    told = text("audit_report.more", count=1)
    assert told not in words(qv.report(ROWS))
    monkeypatch.setattr(report_module, bound, shown)
    assert told in words(qv.report(ROWS))


def test_a_tied_tensor_is_stored_once():
    first, _ = summary_of(ROWS).recipes
    assert (first.measured, first.left_aside, first.refused, first.bits_per_weight) == (5, 1, 1, 4.5)
    assert first.size == 4 * 64 * 32 * 4.5 / 8


@pytest.mark.parametrize("language", languages())
def test_it_stands_alone_and_names_are_text(language):
    page = qv.report(ROWS, language=language, title="<i>t</i>")
    assert f'<html lang="{language}">' in page
    assert not re.search(r"<(script|img|link|iframe|i|b)\b|\bon\w+=[\"']|https?:|url\(|@import", page)
    assert "\u202e" not in page
    assert "prefers-color-scheme: dark" in page
    assert page.count("<details") == 2
    assert "nan" not in words(page).casefold()


def test_what_is_no_scan_is_refused():
    with pytest.raises(qv.QuantVizError, match="at least one row"):
        qv.report([])
    with pytest.raises(qv.QuantVizError, match="sqnr_db"):
        qv.report([{"tensor": "a", "recipe": "b", "status": "ok"}])
    with pytest.raises(qv.QuantVizError, match="'int4_g32'"):
        qv.report(ROWS, recipe="int4_g33")


def test_a_table_for_a_paper_has_units_and_the_spread_over_tensors():
    written = scan_latex(ROWS, title="a_b & 50 %")
    assert r"\caption{a\_b \& 50 \%." in written
    head, *lines = [line for line in written.splitlines() if line.endswith(r"\\")]
    assert head == r"Recipe & Bits per weight & Measured & SQNR, dB & Lowest, dB \\"
    for line in lines:
        recipe, bits, measured, spread, lowest = line.removesuffix(r" \\").replace("\\_", "_").split(" & ")
        found = [row["sqnr_db"] for row in ROWS if row["recipe"] == recipe and row["status"] == "ok"]
        assert (measured, lowest) == (str(len(found)), f"{min(found):.1f}")
        assert bits == {"int4_g32": "4.50", "int8_per_row": "9.00"}[recipe]
        wanted = "--"
        if max(found) < math.inf:
            wanted = f"{statistics.fmean(found):.1f} $\\pm$ {statistics.stdev(found):.1f}"
        assert spread == wanted
