"""Small parts of the pages: buttons, plots, tables and legends as HTML, code, words that explain themselves,
and work that goes from one thing to the next.

Such a word is underlined by dots, its meaning shown on hover, focus or tap.
"""

from __future__ import annotations

import contextlib
import html
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.ui.components.component import clicked_mark
from quantviz.ui.shell import errors
from quantviz.ui.shell.classroom import enlarge, locked
from quantviz.ui.shell.words import language, plain, say, say_error, sentences, theme

if TYPE_CHECKING:
    from quantviz.figures.payload import UncheckedFigure
    from quantviz.live.layer_page import LayerPage
    from quantviz.live.standalone import LivePage, LivePages


def offer_file(
    words: str,
    make: str | bytes | Callable[[], str | bytes],
    file: str,
    key: str,
    *,
    problem: str = "",
    help: str | None = None,
) -> None:
    """Show a button, under the words of a key, that saves a `file`, or says the `problem` with it. Where
    `make` is a function, nobody waits for a file that nobody wants.
    """
    shut = bool(problem)
    st.download_button(
        say(words), make, file, key=key, on_click="ignore", disabled=shut, help=problem or help
    )


def show_save_page(page: LivePage | LivePages | LayerPage, file: str, key: str, about: str) -> None:
    """Show a button that saves a `page` as a file; `about` is the key of the words on it."""
    problem = say_error(page.problem) if page.problem else ""
    offer_file("below.page", page.html, file, key, problem=problem, help=say(about))


def error_beside(field: str) -> QuantVizError | None:
    """Return the error of the last input in the controls of `field`, or None."""
    return errors.input_errors().get(field)


@contextlib.contextmanager
def problem_instead() -> Iterator[None]:
    """Show a `QuantVizError` as a sentence where something else would have come."""
    try:
        yield
    except QuantVizError as problem:
        st.error(say_error(problem))


def show_page_errors(*more: QuantVizError) -> None:
    """Show some errors and those above the page."""
    for error in (*more, *errors.page_errors()):
        st.warning(say_error(error))


def show_error_beside(field: str) -> bool:
    """Show the error of the last input in the controls of `field`; return whether there is one."""
    error = error_beside(field)
    if error:
        st.error(say_error(error))
    return error is not None


def show_refused(refused: Iterable[tuple[str, QuantVizError | None]], label: str, **words: Any) -> None:
    """Show in one line how many of these names have a problem, which unfolds to the names by their problem.

    `label` is the key of the line, which has the count and `words`.
    """
    names: dict[str, list[str]] = {}
    for name, problem in refused:
        if problem:
            names.setdefault(say_error(problem), []).append(name)
    if not names:
        return
    with st.expander(plain(say(label, count=sum(map(len, names.values())), **words)), key=label):
        for reason, kept_out in names.items():
            refusal = say("recipes.not_fitting", names=plain(say("recipes.between").join(kept_out)))
            st.caption(sentences(refusal, reason))


def show_button(label: str, key: str, on_click: Callable[..., None], *args: Any, **look: Any) -> None:
    """Show a button that calls `on_click` with `args`; an error in it is shown as a sentence."""
    st.button(label, key=key, on_click=errors.safely(on_click), args=args, **look)


def offer(label: str, key: str, on_click: Callable[..., None], *args: Any, lock: str = "scheme") -> None:
    """Show the button that applies an answer; it is grey where a teacher has locked its group of controls."""
    shut = locked(lock)
    show_button(label, key, on_click, *args, disabled=shut, help=say("room.locked") if shut else None)


def show_plot(
    figure: UncheckedFigure,
    key: str,
    alt: str | None = None,
    *,
    config: Mapping[str, Any] | None = None,
    laid_out: bool = False,
    take: Callable[[Any], None] | None = None,
    marks: Sequence[Any] | Callable[[Any], bool] = (),
    afresh: bool = False,
) -> None:
    """Show a plot beside others, described by `alt`, in letters of the session's size.

    Args:
        figure: The plot.
        key: Its place on the page.
        alt: Describes it.
        config: Plotly's settings, by default those of a small plot.
        laid_out: Whether its letters have their size already.
        take: Gets the data of the mark that is clicked.
        marks: The things of the marks, whose data is their number here: `take` gets the clicked one. Or
            tells whether data is of this page, which `take` gets then: what a browser says is checked.
        afresh: Whether the plot starts afresh after a click, or a second one would take it back.
    """
    from quantviz.figures.small_plots import SMALL_PLOT_CONFIG

    figure = figure if laid_out else figure.enlarged(enlarge())
    clicks = f"{key}_clicks"
    chart = f"{key}_{st.session_state.get(clicks, 0)}" if afresh else key

    def clicked() -> None:
        mark = clicked_mark(chart, marks if callable(marks) else range(len(marks)).__contains__)
        if take and mark is not None:
            st.session_state[clicks] = st.session_state.get(clicks, 0) + 1
            take(mark if callable(marks) else marks[int(mark)])

    look: dict[str, Any] = {}
    if take:
        look = {"on_select": errors.safely(clicked), "selection_mode": "points"}
    st.plotly_chart(figure, key=chart, theme=None, config=dict(config or SMALL_PLOT_CONFIG), alt=alt, **look)


def show_figure(
    draw: Callable[..., UncheckedFigure],
    key: str,
    alt: str,
    *data: Any,
    take: Callable[[Any], None] | None = None,
    marks: Sequence[Any] = (),
    afresh: bool = False,
    **looks: Any,
) -> None:
    """Show the plot that `draw` makes of `data` in the session's language and theme; see `show_plot`."""
    figure = draw(*data, language=language(), theme=theme(), **looks)
    show_plot(figure, key, alt, take=take, marks=marks, afresh=afresh)


def number_html(key: str, value: str, line: str = "", **told: object) -> str:
    """Return a number as HTML, named and explained by the words under a key, with a small line below it."""
    page, name = key.partition(".")[0], key.rpartition(".")[2]
    words = term(say(key), say(f"{key}_help", **told), key=f"{page}_{name}")
    small = f" <small>{html.escape(line)}</small>" if line else ""
    return f'<span class="qv-number" data-qv-layer="{name}">{words} <b>{html.escape(value)}</b>{small}</span>'


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


def show_folded(
    label: str, key: str, show: Callable[..., object], *args: Any, expanded: bool = False
) -> None:
    """Show an expander that has `show` draw what is in it once it is opened."""
    opened = st.expander(label, key=key, on_change="rerun", expanded=expanded)
    if opened.open:
        with opened:
            show(*args)


def show_python(label: str, key: str, lines: Callable[[], str]) -> None:
    """Show the lines once their expander is opened: colouring them takes a browser half a second."""
    show_folded(label, key, lambda: st.code(lines(), language="python", wrap_lines=True))


def show_words_with_terms(words: str) -> None:
    """Show a lesson's words, Markdown whose only HTML is that of `term`.

    `Words` refuse any other HTML, formulas give numbers, and `term` escapes its arguments. No line begins
    with the sign of a percentage.
    """
    st.markdown(words.replace(" %", "\u00a0%"), unsafe_allow_html=True)


def term(word: str, meaning: str, *, key: str, short: str = "", more: tuple[str, str] | None = None) -> str:
    """Return a word as HTML whose meaning the page's style shows while it is pointed at or has the focus.

    `key` is unique on the page: a screen reader finds the meaning by it. `short` is the word where there is
    little room. `more` are the words and the address of a link below the meaning.

    >>> term("MSE", "mean of (x̂ − x)²", key="mse")[:46]
    '<span class="qv-term" tabindex="0" aria-descri'
    """
    words, address = more or ("", "")
    link = f'<a href="{html.escape(address)}" target="_self">{html.escape(words)}</a>' if more else ""
    return (
        f'<span class="qv-term" tabindex="0" aria-describedby="qv-{key}">'
        f'<span class="qv-word" data-short="{html.escape(short or word)}">{html.escape(word)}</span>'
        f'<span class="qv-meaning" role="tooltip" id="qv-{key}">{html.escape(meaning)}{link}</span></span>'
    )


def show_progress(key: str, cancel: Callable[..., None], *args: Any) -> tuple[Any, Any]:
    """Show a bar with the button that cancels beside it; return the place of both, to be emptied, and the
    bar.

    Args:
        key: The place on the page.
        cancel: Called with `args` when the button is pressed. The run that works ends by itself.
        *args: The arguments of `cancel`.
    """
    place = st.empty()
    with place.container(key=f"{key}_progress", horizontal=True, vertical_alignment="center"):
        bar = st.progress(0.0)
        show_button(say("checkpoints.cancel"), f"{key}_cancel", cancel, *args)
    return place, bar


@dataclass
class SteppedWork:
    """Work of a session on some things, one after the other, until all are done or it is cancelled.

    >>> walk = SteppedWork("squares")
    >>> walk.found[3] = 9
    >>> walk.missing((2, 3))
    [2]
    """

    #: Names the work: of other things there is another one.
    of: str
    is_running: bool = True
    #: The result for each thing that is done; it stays when the work is cancelled.
    found: dict[Any, Any] = field(default_factory=dict)

    def missing(self, things: Iterable[Any]) -> list[Any]:
        """Return the things that are not done."""
        return [thing for thing in things if thing not in self.found]

    def cancel(self) -> None:
        """End the work after what is done."""
        self.is_running = False

    def go_on(self) -> None:
        """Go on with the work after it was cancelled."""
        self.is_running = True

    def go_through(
        self,
        things: Iterable[Any],
        make: Callable[[Any, Callable[[float], None]], Any],
        words: Callable[[Any], str],
        key: str,
    ) -> None:
        """Do what is missing, if it runs, and show how far it is.

        Args:
            things: All things, in order.
            make: Returns the result for a thing; it may pass on the share of it that is done.
            words: Returns the sentence on a thing that is being done.
            key: The place on the page.
        """
        every = list(things)
        missing = self.missing(every)
        if not self.is_running or not missing:
            self.is_running = False
            return
        place, bar = show_progress(key, self.cancel)

        def show_share(thing: Any, share: float) -> None:
            bar.progress((len(self.found) + share) / len(every), plain(words(thing)))

        for thing in missing:
            show_share(thing, 0.0)
            self.found[thing] = make(thing, partial(show_share, thing))
        self.is_running = False
        place.empty()
