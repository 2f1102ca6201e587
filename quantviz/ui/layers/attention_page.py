"""The page of attention: its finding and schemes, one product of a head, the KL divergence, ways to round."""

from __future__ import annotations

import dataclasses
import html
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.figures.numbers import short_number
from quantviz.lab.attention_state import (
    PRODUCTS,
    SHOWN,
    TABS,
    AttentionState,
)
from quantviz.live.layer_payload import Multiplication
from quantviz.ui.components.clipboard import show_copy_link
from quantviz.ui.components.controls import Control, choose_among, show_controls, show_undo
from quantviz.ui.components.page_header import show_header
from quantviz.ui.components.refusals import show_page_errors
from quantviz.ui.components.small_parts import show_button, table_html
from quantviz.ui.layers.attention_cell import show_cell
from quantviz.ui.layers.attention_choices import show_choices
from quantviz.ui.layers.attention_state import (
    CHANNEL_KEYS,
    OWNER,
    OpenedHeads,
    name_of_heads,
    opened_heads,
    seen_attention,
    ways_found,
)
from quantviz.ui.layers.picture import show_multiplication
from quantviz.ui.layers.words import number_html, percent
from quantviz.ui.shell.imports import warm_up
from quantviz.ui.shell.tab import name_tab
from quantviz.ui.shell.words import say, say_error, sentences, unbroken

if TYPE_CHECKING:
    from quantviz.models.attention_view import AttentionView

#: A way is offered that leaves at most this share of the KL divergence.
_WORTH = 0.9


def show_page() -> None:
    """Show the attention of the state's heads."""
    for sheet in ("layers.css", "attention.css"):
        st.html(Path(__file__).with_name(sheet))
    state = OWNER.state
    named = name_of_heads(state.heads, state.layer)
    title = " › ".join((say("pages.attention"), named))
    name_tab(say("pages.attention"), named)
    _, actions = show_header(title, "", ("pages/explore/layers.py", say("pages.layers")))
    with actions:
        show_undo(OWNER)
        show_copy_link()
    finding = st.container(key="layers_look")
    choices = st.container(key="layers_choices", horizontal=True, gap="small")
    warm_up()
    show_page_errors(*OWNER.problems)
    opened = _opened(state)
    with choices:
        show_choices(state, opened)
    if opened is not None:
        try:
            view = seen_attention(state, opened)
            state = _settled(state, view)
            OWNER.amend(state)
            with finding:
                words = html.escape(unbroken(_finding(state, view)))
                st.html(f'<p class="qv-finding">{words}</p>')
            _show_attention(state, opened, view)
        except QuantVizError as problem:
            st.error(say_error(problem))
    OWNER.show_link()


def _opened(state: AttentionState) -> OpenedHeads | None:
    """Return the heads of the state, or show why they cannot be opened."""
    try:
        return opened_heads(state)
    except QuantVizError as problem:
        st.error(say_error(problem))
        return None


def _settled(state: AttentionState, view: AttentionView) -> AttentionState:
    """Return the state limited to its heads, with the ends of the error's colours, which stay from now on."""
    look = view.look
    state = dataclasses.replace(
        state,
        head=look.head,
        product=look.product,
        lines=state.lines if look.lines else None,
        cell=look.cell,
        channel=look.channel,
    )
    if state.shown != "error" or all(state.held or (0,)):
        return state
    reach = tuple(float(f"{part.largest:.3g}") for part in (view.picture.x, view.picture.w, view.picture.y))
    held = state.held or reach
    return state.replace(held=tuple(old or new for old, new in zip(held, reach, strict=True)))


def _finding(state: AttentionState, view: AttentionView) -> str:
    """Return the sentence on the loudest channel of the keys and on what it costs."""
    loud = view.loud
    if not view.numbers["kl"] and not view.numbers["rel_scores"]:
        return say("attention.finding.none")
    if loud is None:
        return say("attention.finding.even")
    words = say("attention.finding.loud", channel=loud.channel, times=short_number(loud.times, 2))
    if loud.is_same:
        kept = "taken" if state.basis in ("center", "both") else "same"
        return sentences(words, say(f"attention.finding.{kept}"))
    return sentences(words, say("attention.finding.differs"))


def _show_attention(state: AttentionState, opened: OpenedHeads, view: AttentionView) -> None:
    with st.container(key="layers_scene"):
        with st.container(key="layers_left", gap="xsmall"), st.container(key="layers_view", gap="xsmall"):
            _show_picture(state, view)
        with st.container(key="layers_right", gap="xsmall"):
            several = len(view.numbers["kl_of_heads"]) > 1
            with st.container(key="layers_numbers", gap="xsmall"):
                _show_numbers(view)
                # Of many heads these take longer: the number is there before.
                ways = ways_found(state, opened)
                _show_best(state, view, ways)
            with st.container(key="layers_stage", gap="xsmall"):
                with st.container(key="layers_tabs"):
                    tab = choose_among(
                        "attention_tab",
                        "row",
                        say("layers.tabs"),
                        {name: say(f"attention.tab.{name}") for name in TABS if name != "heads" or several},
                        state.tab,
                        lambda tab: OWNER.change(tab=tab),
                        look="qv-unnamed qv-tabs",
                    )
                with st.container(key=f"attention_tab_{tab}", gap="xsmall"):
                    if tab == "cell":
                        show_cell(state, view)
                    elif tab == "ways":
                        _show_ways(state, view, ways)
                    else:
                        _show_heads(state, view)


def _show_picture(state: AttentionState, view: AttentionView) -> None:
    """Show both factors and the product of the head in view, and what of it is shown."""
    from quantviz.figures.multiplication import ColourEnds

    products = [each for each in PRODUCTS if each == "scores" or view.numbers["values"]]
    rows = {"product": products, "shown": SHOWN}
    with st.container(key="layers_shown", horizontal=True, vertical_alignment="center", gap="small"):
        controls = [
            Control(
                field,
                "row",
                say(f"attention.choice.{field}"),
                value=getattr(state, field),
                choices={name: say(f"attention.{field}.{name}") for name in names},
            )
            for field, names in rows.items()
        ]
        show_controls("attention_shown", OWNER, *controls, look="qv-unnamed")
        if state.lines is not None:
            show_button(say("attention.whole"), "attention_whole", lambda: OWNER.change(lines=None))
    picture = view.picture
    largest = ColourEnds(*(part.largest for part in (picture.x, picture.w, picture.y)))
    ends = ColourEnds(*state.held) if state.shown == "error" and state.held else largest
    selected = (*view.cell.place, state.channel)
    show_multiplication(OWNER, Multiplication(picture, ends, view.shape, selected))


def _show_numbers(view: AttentionView) -> None:
    """Show the KL divergence, large, and the errors that people look at beside it."""
    numbers = view.numbers
    rows = say("attention.numbers.rows", most=_bits(numbers["kl_99"]), largest=_bits(numbers["kl_max"]))
    stored = numbers["key_bytes"] + numbers["value_bytes"]
    times = say("attention.numbers.times", times=short_number(numbers["bytes_at_16_bits"] / stored, 3))
    others = [number_html("attention.numbers.scores", percent(numbers["layer_error"]))]
    if numbers["values"]:
        others.append(number_html("attention.numbers.output", percent(numbers["rel_output"])))
    others.append(number_html("attention.numbers.cache", times))
    large = number_html("attention.numbers.kl", _bits(numbers["kl"]), rows)
    st.html(
        f'<div class="qv-layer-numbers"><p class="qv-large">{large}</p>'
        f'<p class="qv-others">{"".join(others)}</p></div>'
    )


def _bits(value: float) -> str:
    return say("attention.bits", value=short_number(value, 3))


def _show_best(state: AttentionState, view: AttentionView, ways: Mapping[str, tuple[float, float]]) -> None:
    """Show the way to round the keys that leaves the least KL divergence, with a button that takes it."""
    best = _least(ways)
    kl, now = ways[best][0], view.numbers["kl"]
    if not kl <= _WORTH * now:
        return
    less = short_number(now / kl, 2) if kl else "∞"
    fix = say("attention.best", way=say(f"attention.way.{best}"), kl=_bits(kl), less=less)
    changes = {"keys": CHANNEL_KEYS, "basis": "none"} if best == "channel" else {"basis": best}
    with st.container(key="layers_fix", horizontal=True, wrap=False, vertical_alignment="center"):
        st.html(f"<p>{html.escape(unbroken(fix))}</p>", width="stretch")
        show_button(say("layers.remedy.take"), "attention_best", lambda: OWNER.change(**changes))


def _least(ways: Mapping[str, tuple[float, float]]) -> str:
    """Return the simplest way among those with about the least KL divergence."""
    least = min(kl for kl, _ in ways.values())
    return next(name for name, (kl, _) in ways.items() if _WORTH * kl <= least)


def _show_ways(state: AttentionState, view: AttentionView, ways: Mapping[str, tuple[float, float]]) -> None:
    """Show the ways to round the keys with both numbers, and whether these would choose alike."""
    by_kl = _least(ways)
    by_error = min(ways, key=lambda name: ways[name][1])
    for note in view.notes:
        shares = {name: f"{note.params[name]:.3g}" for name in ("of_scores", "of_error")}
        st.markdown(say("attention.common", **shares))
    if ways[by_kl][0] < _WORTH * ways[by_error][0]:
        words = say(
            "attention.misleads",
            by_error=say(f"attention.way.{by_error}"),
            by_kl=say(f"attention.way.{by_kl}"),
            times=short_number(ways[by_error][0] / ways[by_kl][0], 2),
        )
        st.markdown(words)
    most = max(kl for kl, _ in ways.values()) or 1.0
    rows = [
        f"<tr{_marked(name == state.basis)}><td>{html.escape(say(f'attention.way.{name}'))}</td>"
        f'<td class="qv-bar-cell"><i style="width:{100 * kl / most:.3g}%"></i></td>'
        f"<td>{_bits(kl)}</td><td>{percent(error)}</td></tr>"
        for name, (kl, error) in ways.items()
    ]
    heads = [say(f"attention.heads_of.{name}") for name in ("way", "bar", "kl", "error")]
    st.html(f'<div class="qv-products qv-ways">{table_html(heads, rows)}</div>')


def _show_heads(state: AttentionState, view: AttentionView) -> None:
    """Show the KL divergence of each head."""
    divergences = view.numbers["kl_of_heads"]
    most = max(divergences) or 1.0
    rows = [
        f"<tr{_marked(head == state.head)}><td>{head}</td>"
        f'<td class="qv-bar-cell"><i style="width:{100 * kl / most:.3g}%"></i></td><td>{_bits(kl)}</td></tr>'
        for head, kl in enumerate(divergences)
    ]
    heads = [say(f"attention.heads_of.{name}") for name in ("head", "bar", "kl")]
    st.html(f'<div class="qv-products qv-ways" tabindex="0">{table_html(heads, rows)}</div>')


def _marked(selected: bool) -> str:
    return ' class="qv-selected"' if selected else ""
