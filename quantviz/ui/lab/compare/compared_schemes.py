"""A, B and more: schemes compared on the Lab's tensor, and the one of smaller error in each part."""

from __future__ import annotations

import math
import string
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from operator import setitem
from typing import TYPE_CHECKING, Any

import numpy as np
import streamlit as st

from quantviz.analysis.recipe_ranking import priced_bits
from quantviz.errors import QuantVizError
from quantviz.lab.state import MOST_COMPARED, LabState
from quantviz.live.cells import Picture
from quantviz.live.hand_words import Looks
from quantviz.schemes.conventions import CONVENTION_GROUPS
from quantviz.schemes.granularity import Granularity, PerChannel, PerTensor
from quantviz.schemes.recipes import RECIPES, current_recipe
from quantviz.schemes.scheme import Scheme
from quantviz.ui.components.controls import choose_among, switch
from quantviz.ui.components.panels_bridge import PanelsWords, bridge_width, show_panels
from quantviz.ui.components.phone_tables import TableColumn, show_table
from quantviz.ui.components.scheme_words import convention_options, part_words
from quantviz.ui.components.small_parts import offer, show_button, show_save_page
from quantviz.ui.components.tensor_cache import heavy_fact, study_of
from quantviz.ui.lab.compare.compared_engines import seen
from quantviz.ui.lab.picture.tensor_panels import (
    BRIDGE_KEY,
    PANELS_KEY,
    block_words,
    error_end,
    linked_place,
    panels_of,
    tensor_key,
)
from quantviz.ui.shell import session
from quantviz.ui.shell.classroom import is_open, locked, visible
from quantviz.ui.shell.words import (
    language,
    number,
    plain,
    recipe_names,
    say,
    say_error,
    sentences,
    shape_text,
    theme,
)

if TYPE_CHECKING:
    from quantviz.analysis.scheme_comparison import SchemeComparison
    from quantviz.figures.compared_panels import ComparedPanels
    from quantviz.figures.panels_data import PanelsData

_KEY = "beside"
_WHAT = "beside_what"
_WHICH = "beside_which"
#: The schemes shown last, in the order in which they were chosen.
_SHOWN = "lab_beside_shown"


def show_schemes_beside(
    found: SchemeComparison,
    state: LabState,
    names: Sequence[str],
    chosen: tuple[str, tuple[int, ...]],
    parts: Granularity | None,
) -> None:
    """Show some of the compared schemes side by side, and the winner of each of `parts` (cells where none).

    `chosen` is the result of `choose_beside`.
    """
    what, which = chosen
    data = _panels(found, state, parts, what, which)
    letters = string.ascii_uppercase
    words = say(f"contest.what.{what}")
    lettered = [say("contest.name", letter=letters[k], name=name) for k, name in enumerate(names)]
    bridge = st.container(key=f"{_KEY}_place")
    panels = st.container(key=_KEY)
    show_panels(
        data,
        linked_place(_KEY, bridge, panels, PANELS_KEY),
        tensor_key=tensor_key(state),
        selected=state.view.place(state.cell),
        picture=Picture("quantviz-compared", state.source.title(language()), " · ".join(lettered)),
        words=PanelsWords(
            titles=[*(_title(found, k, names[k]) for k in which), say("contest.map")],
            card={
                "labels": {
                    **{
                        letters[k].lower(): say(
                            "contest.card", letter=letters[k], what=say(f"panels.tab.{what}")
                        )
                        for k in which
                    },
                    "winner": say("contest.map"),
                    "lead": say("contest.ahead"),
                },
                "words": {"winner": [*letters[: len(names)], say("contest.tie"), "–"]},
            },
            alt=say("contest.panels_alt", what=words, names=", ".join(lettered[k] for k in which)),
        ),
    )
    pooled = "_pooled" if data.pixels is not None else ""
    st.caption(plain(sentences(say(f"contest.held_{what}"), say(f"contest.map_how{pooled}"))))


def _title(found: SchemeComparison, k: int, name: str) -> str:
    """Return a scheme's letter, its SQNR or MSE, and its name, which is cut where there is no room."""
    metrics = found.measured[k].metrics
    if visible("tiles.sqnr"):
        told = say("contest.db", sqnr=number(metrics["sqnr_db"], 3))
    elif visible("tiles.mse"):
        told = say("contest.mse", mse=number(metrics["mse"], 3))
    else:
        told = ""
    return " · ".join(filter(None, (string.ascii_uppercase[k], told, name)))


def choose_beside(names: Sequence[str]) -> tuple[str, tuple[int, ...]]:
    """Return the chosen view of each scheme, and the places of the chosen schemes."""
    from quantviz.figures.compared_panels import COMPARED_VIEWS, MOST_BESIDE

    offered = {each: say(f"contest.what.{each}") for each in COMPARED_VIEWS if visible(each)}
    what = switch(_WHAT, say("contest.what_shown"), offered)
    if len(names) <= MOST_BESIDE:
        return what, tuple(range(len(names)))
    shown = _newest(len(names), MOST_BESIDE)
    letters = {k: string.ascii_uppercase[k] for k in range(len(names))}
    label = say("contest.which", most=MOST_BESIDE)
    take = partial(setitem, st.session_state, _WHICH)
    choose_among(f"{_WHICH}_choice", "many", label, letters, shown, take)
    return what, shown


def _newest(count: int, most: int) -> tuple[int, ...]:
    """Return the places of the shown schemes: of more than `most` those chosen last, of few at least two."""
    before = [k for k in st.session_state.get(_SHOWN, ()) if k < count] or list(range(most))
    now = [k for k in st.session_state.get(_WHICH) or before if k < count]
    chosen = [k for k in before if k in now] + [k for k in now if k not in before]
    st.session_state[_SHOWN] = chosen[-most:] if len(chosen) >= 2 else before
    return tuple(sorted(st.session_state[_SHOWN]))


def _panels(
    found: SchemeComparison, state: LabState, parts: Granularity | None, what: str, which: tuple[int, ...]
) -> ComparedPanels:
    from quantviz.figures.compared_panels import compared_panels

    width = bridge_width(BRIDGE_KEY)
    end = error_end(study_of(state), state)
    states = [state.replace(scheme=scheme) for scheme in found.schemes]

    def of(k: int) -> PanelsData:
        return panels_of(study_of(states[k]), states[k], end, width)

    shown = {k: of(k) for k in which}
    first = next(iter(shown.values()))
    if parts is not None:
        winner, lead = _of_parts(found, state, parts, first)
    else:
        from quantviz.analysis.scheme_comparison import judged
        from quantviz.streaming.frames import Patch

        view = state.view
        patch = Patch(view.top, view.left, *view.size(state.source.shape))

        def errors_of(k: int) -> Any:
            if first.pixels is None:
                return np.abs(shown[k].error if k in shown else of(k).error)
            return study_of(states[k]).overview(patch, first.shape, "rms", view).error

        winner, lead, _ = judged(np.stack([errors_of(k) for k in range(len(states))]))
    return compared_panels(shown, what, winner, lead, len(states))


def _of_parts(
    found: SchemeComparison, state: LabState, parts: Granularity, shown: PanelsData
) -> tuple[Any, Any]:
    """Return the winners of parts, and their leads, as the rows and columns that are shown."""
    from quantviz.figures.compared_panels import strongest_in_pixels

    winner, lead = (_in_view(each, state, parts) for each in (found.winner, found.lead))
    rows, cols = shown.seen
    edges = (
        (np.arange(rows + 1), np.arange(cols + 1))
        if shown.pixels is None
        else (shown.pixels.row_edges - shown.top, shown.pixels.col_edges - shown.left)
    )
    return strongest_in_pixels(winner, lead, len(found.schemes), edges)


def _in_view(values: Any, state: LabState, parts: Granularity) -> Any:
    """Return the parts' values as the rows and columns in view; of channels one line stands for all."""
    import torch

    from quantviz.tensors.blocks import expand

    view = state.view
    shape = state.source.shape
    rows, cols = view.size(shape)
    if isinstance(parts, PerChannel):
        line = values.reshape(-1)
        if parts.axis == view.rows:
            return line[view.top : view.top + rows, None]
        return line[None, view.left : view.left + cols]
    told = expand(torch.from_numpy(values), parts.layout(shape, "short"), shape).expand(shape)
    return seen(told, view)


_ADD = "contest_add"
_KEPT = "contest_kept"
_TABLE = "contest_table"
_OPEN = "contest_open"
_PARTS = "contest_parts"
#: Before an engine's id among the schemes to add; no recipe's id has it.
_ENGINE = "engine."
#: Most schemes whose clearest win is named.
_MOST_TOLD = 3


# ---- the compared schemes ------------------------------------------------------------------------


def show_choices(state: LabState) -> None:
    """Show the button that remembers the present scheme, and the box that adds another."""
    held = state.remembered
    full = len(held) >= MOST_COMPARED
    if state.scheme in held:
        label = say("contest.remembered", letter=_letter(held.index(state.scheme)))
    else:
        label = say("contest.remember", letter=_letter(min(len(held), MOST_COMPARED - 1)))
    show_button(
        label,
        "set_baseline",
        _remember_present,
        disabled=full or state.scheme in held,
        help=say("contest.full", most=MOST_COMPARED) if full else say("contest.remember_help"),
    )
    if not full:
        choose_among(
            _ADD,
            "find",
            say("contest.add"),
            {name: _addable_words(name, state) for name in _addable(state)},
            None,
            _add,
            example=say("contest.add_placeholder"),
            look="qv-unnamed",
        )


def _remember_present() -> None:
    # Not the scheme that the button was shown with: a choice may have come with the press.
    state = session.state()
    session.remember((*state.remembered, state.scheme))


def _addable(state: LabState) -> dict[str, Scheme]:
    """Return further schemes to compare with the present one: recipes, and its own under other engines."""
    offered = {name: _answering(recipe, state) for name, recipe in RECIPES.items()}
    for name in (name for group in CONVENTION_GROUPS.values() for name in group):
        with suppress(QuantVizError):  # the engine does not offer this scheme
            offered[_ENGINE + name] = state.scheme.replace(convention=name)
    shape = state.source.shape
    new = {name: each for name, each in offered.items() if each not in state.contenders}
    return {name: each for name, each in new.items() if not each.problems(shape)}


def _addable_words(name: str, state: LabState) -> str:
    if name.startswith(_ENGINE):
        return say("contest.same_under", engine=convention_options()[name.removeprefix(_ENGINE)])
    return recipe_names(state.source.axes)[name]


def _add(name: str) -> None:
    """Hold a scheme against the others; the first is held against the present one, which becomes A."""
    state = session.state()
    added = _addable(state).get(name)
    if added is not None:  # it is there already, or does not fit another tensor
        session.remember((*(state.remembered or (state.scheme,)), added))
        # Open the comparison for the added scheme, also where that takes a while.
        st.session_state[_OPEN] = True


def _answering(scheme: Scheme, state: LabState) -> Scheme:
    """Return a scheme with the present choice for NaN and Inf, unless it has its own: all have to accept."""
    return scheme if scheme.nonfinite != "refuse" else scheme.replace(nonfinite=state.scheme.nonfinite)


def _letter(number: int) -> str:
    return string.ascii_uppercase[number]


def _name(scheme: Scheme, state: LabState) -> str:
    """Return a recipe's name, or format and granularity in words, with all unusual settings."""
    recipe = current_recipe(scheme, state.source.shape)
    if recipe:
        return recipe_names(state.source.axes)[recipe]
    usual = Scheme("int8")
    further = ("mode", "calibration", "convention")
    unusual = [name for name in further if getattr(scheme, name) != getattr(usual, name)]
    parts = ("format", "granularity", *unusual)
    return " · ".join(part_words(scheme, name, state.source) for name in parts)


def _names(state: LabState) -> tuple[str, ...]:
    """Return the names of the compared schemes."""
    return tuple(_name(each, state) for each in state.contenders)


# ---- the comparison ------------------------------------------------------------------------------


def show_compared_schemes(state: LabState, sentence: Any, action: Any) -> bool:
    """Show the scheme of smaller error in each part, and the result of each scheme, once there are two: the
    answer in `sentence`, and in `action` the button that takes the best. Return whether there was an answer.
    """
    if len(state.contenders) < 2:
        return False
    with st.container(key="contest"):
        _show_kept(state)
        if not (visible("error") and visible("x_hat")):
            return False
        if state.large and not st.toggle(say("contest.show"), key=_OPEN):
            return False
        schemes = tuple(_answering(each, state) for each in state.contenders)
        names = _names(state)
        with st.container(key="contest_choices", horizontal=True, gap="small", vertical_alignment="bottom"):
            beside = choose_beside(names)
            parts = _asked_for(state)
        try:
            found = _compared(state, schemes, parts)
        except QuantVizError as problem:
            st.warning(say_error(problem))
            return False
        sentence.markdown(plain(_sentence(found, state, parts)))
        _offer_best(found, state, action)
        show_schemes_beside(found, state, names, beside, _granularities(state).get(parts))
        _show_table(found, state)
        offer_page(state, schemes, names)
        forms = ", ".join(f'"{each}"' for each in schemes)
        st.caption(f"`qv.compare_schemes(x, [{forms}]).table()`")
    return True


def offer_page(state: LabState, schemes: tuple[Scheme, ...], names: tuple[str, ...]) -> None:
    """Show a button that saves the comparison as one page that works without a server."""
    from quantviz.analysis.study import Study
    from quantviz.live.standalone import LivePage, LivePages

    if state.large or not is_open():
        return
    looks = Looks(language(), theme())
    pages = []
    for k, scheme in enumerate(schemes):
        study = study_of(state.replace(scheme=scheme))
        own = study if study.result is None or study.of_file else Study.of_result(study.result)
        title = say("contest.name", letter=_letter(k), name=names[k])
        pages.append(LivePage(own, title, state.cell, looks))
    page = LivePages(tuple(pages), f"{state.source.title(language())} · {shape_text(state.source.shape)}")
    show_save_page(page, "compared.html", "contest_to_page", "contest.page_help")


def _offer_best(found: SchemeComparison, state: LabState, action: Any) -> None:
    """Offer the scheme of the highest SQNR, where it is not the present one."""
    best = max(range(len(found.measured)), key=lambda k: found.measured[k].metrics["sqnr_db"])
    if state.contenders[best] == state.scheme:
        return
    with action:
        take = partial(session.change, scheme=state.contenders[best])
        offer(say("contest.take", letter=_letter(best)), "contest_take", take)


def _show_kept(state: LabState) -> None:
    """Show the remembered schemes; a tap on one drops it."""
    held = dict(zip(map(str, state.remembered), state.remembered, strict=True))
    if not held or not visible("actions"):
        return
    words = {
        form: plain(say("contest.name", letter=_letter(k), name=_name(scheme, state)))
        for k, (form, scheme) in enumerate(held.items())
    }
    label = say("contest.drop_how")
    choose_among(_KEPT, "many", label, words, held, _keep)


def _keep(forms: list[str]) -> None:
    session.remember(each for each in session.state().remembered if str(each) in forms)


def _asked_for(state: LabState) -> str:
    """Return the kind of parts with a winner each: cells, rows, columns or blocks."""
    words = {name: say(f"contest.part.{name}") for name in ("cells", *_granularities(state))}
    return str(switch(_PARTS, say("contest.parts"), words))


def _granularities(state: LabState) -> Mapping[str, Granularity]:
    """Return further parts with a winner each: channels, and of a small tensor the scheme's own blocks."""
    from quantviz.analysis.scheme_comparison import MOST_CELLS

    rows = state.view.rows
    cols = state.view.cols
    own = state.scheme.granularity
    parts: dict[str, Granularity] = {}
    if rows is not None:
        parts |= {"rows": PerChannel(rows), "columns": PerChannel(cols)}
    if math.prod(state.source.shape) <= MOST_CELLS and not isinstance(own, (PerTensor, PerChannel)):
        parts["blocks"] = own
    return parts


def _compared(state: LabState, schemes: tuple[Scheme, ...], parts: str) -> SchemeComparison:
    """Return the comparison: computed once for a tensor, its schemes and parts."""
    from quantviz.analysis.scheme_comparison import compare_schemes

    granularity = _granularities(state).get(parts)
    name = f"contest {granularity} {' '.join(map(str, schemes))}"
    work = partial(compare_schemes, schemes=schemes, parts=granularity)
    with st.spinner(say("contest.trying", count=len(schemes)), show_time=True):
        return heavy_fact(state.source, name, work)


def _sentence(found: SchemeComparison, state: LabState, parts: str) -> str:
    """Return the sentence on the winners: each scheme's share of parts, largest first, and the clearest."""
    # Of a large tensor the map has pixels, but the cells are counted all the same.
    of_cells = parts == "cells"
    wins, ties = (found.cell_shares, found.cell_ties) if of_cells else (found.part_shares, found.part_ties)
    shares = sorted(enumerate(wins), key=lambda each: -each[1])
    first = {"of": say(f"contest.of.{parts}")}
    clauses: list[str] = []
    for at, share in shares:
        key = "contest.wins_too" if clauses else "contest.wins"
        clauses.append(say(key, letter=_letter(at), share=_percent(share), **first))
    if ties > 0:
        clauses.append(say("contest.ties", share=_percent(ties)))
    # A scheme may win some cells and yet no pixel of many.
    furthest = [_furthest(found, k, state, parts) for k, _ in shares if (found.winner == k).any()]
    where = say("contest.furthest", each=say("cell.then").join(furthest[:_MOST_TOLD])) if furthest else ""
    return sentences(f"{say('contest.between').join(clauses)}{say('contest.end')}", where)


def _furthest(found: SchemeComparison, k: int, state: LabState, parts: str) -> str:
    """Return the part where a scheme is furthest ahead, and its lead, in words."""
    lead = np.where(found.winner == k, found.lead, -1.0)
    at = np.unravel_index(int(lead.argmax()), lead.shape)
    if found.row_edges is not None and found.col_edges is not None:
        # Rows of the last axis, one after the other.
        place = f"{_span(found.row_edges, at[0], 'row')} × {_span(found.col_edges, at[1], 'column')}"
    elif parts == "cells":
        place = say("blame.one.cell", what=f"({', '.join(str(int(each)) for each in at)})")
    elif parts == "blocks":
        assert found.parts is not None
        layout = found.parts.layout(found.shape, "short")
        place = block_words(layout, found.shape, state.view, tuple(map(int, at)))
    else:
        place = say({"rows": "blame.one.row", "columns": "blame.one.column"}[parts], what=int(max(at)))
    return say("contest.furthest_one", letter=_letter(k), place=place, lead=number(lead[at], 3))


def _span(edges: Any, k: Any, kind: str) -> str:
    first = int(edges[k])
    last = int(edges[k + 1]) - 1
    if first == last:
        return say(f"blame.one.{kind}", what=first)
    return say(f"blame.many.{kind}", what=f"{first}–{last}")


def _percent(share: float) -> str:
    return f"{100 * share:.3g}"


# ---- the table ------------------------------------------------------------------------------------


def _show_table(found: SchemeComparison, state: LabState) -> None:
    schemes = state.contenders
    shape = state.source.shape
    bits = [priced_bits(each, shape) for each in schemes]
    table = found.table().assign(bits=bits, bits_minus_a=[each - bits[0] for each in bits])
    names = [say("contest.name", letter=_letter(k), name=name) for k, name in enumerate(_names(state))]
    now = schemes.index(state.scheme) if state.scheme in schemes else None
    names = [say("contest.now", name=name) if k == now else name for k, name in enumerate(names)]
    cells = [100 * share for share in found.cell_shares]
    columns = [
        TableColumn("name", names, 160, width_on_phone=172, names_lines=True),
        TableColumn("cells", cells, 68, "%.1f %%", on_phone=True),
    ]
    for name, tile, pixels, forms in (
        ("sqnr_db", "sqnr", 68, ("%.2f", "%+.2f")),
        ("mse", "mse", 88, ("%.4g", "%+.3g")),
        ("bits", "bits", 68, ("%.3f", "%+.3f")),
    ):
        if visible(f"tiles.{tile}"):
            for each, form in zip((name, f"{name}_minus_a"), forms, strict=True):
                columns.append(
                    TableColumn(each, table[each].tolist(), pixels, form, on_phone=each == "sqnr_db")
                )
    take = None if locked("scheme") else lambda line: session.change(scheme=schemes[line])
    alt = say("contest.table_alt")
    width = bridge_width(BRIDGE_KEY)
    show_table(_TABLE, columns, width, words="contest.columns", alt=alt, take=take)
    if take:
        st.caption(say("contest.table_how"))
