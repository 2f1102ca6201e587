"""Small parts of the pages: plots, tables and legends as HTML, and code."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import streamlit as st

from quantviz.ui.shell.classroom import enlarge

if TYPE_CHECKING:
    from quantviz.figures.payload import Drawn


def show_plot(
    figure: Drawn,
    key: str,
    alt: str | None = None,
    *,
    config: Mapping[str, Any] | None = None,
    laid_out: bool = False,
    **look: Any,
) -> None:
    """Show a small plot, described by `alt` for people who cannot see it, with text as large as the page's.

    `config` is plotly's, by default that of a plot with nothing to press. A figure that is `laid_out` has the
    size of its text already.
    """
    from quantviz.figures.small_plots import SMALL_PLOT_CONFIG

    figure = figure if laid_out else figure.enlarged(enlarge())
    st.plotly_chart(figure, key=key, theme=None, config=dict(config or SMALL_PLOT_CONFIG), alt=alt, **look)


def table_html(heads: Iterable[str], rows: Iterable[str]) -> str:
    """Return a table as HTML: `heads` are text, `rows` are HTML; an empty head is a cell without a name."""
    # A header without words is read out as one that says nothing.
    head = "".join(f"<th>{html.escape(each)}</th>" if each else "<td></td>" for each in heads)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def legend_html(colours: Iterable[tuple[str, str]]) -> str:
    """Return names and their colours as HTML."""
    return " ".join(
        f'<span class="qv-told"><span class="qv-swatch" style="background:{colour}"></span>'
        f"{html.escape(name)}</span>"
        for name, colour in colours
    )


def show_python(label: str, key: str, lines: Callable[[], str]) -> None:
    """Show the lines once their expander is opened: colouring them takes a browser half a second."""
    opened = st.expander(label, key=key, on_change="rerun")
    if opened.open:
        with opened:
            st.code(lines(), language="python")
