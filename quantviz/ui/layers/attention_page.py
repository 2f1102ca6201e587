"""The page of attention: its heads and their finding, one product of a head, one cell, and ways to round."""

from __future__ import annotations

import dataclasses
import html
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.figures.numbers import short_number
from quantviz.lab.attention_state import (
    BASES,
    BUILT_IN,
    DROPPED,
    KEYS,
    KIVI,
    LAYOUTS,
    MASKS,
    MOST_BASE,
    MOST_NUMBER,
    OTHERS,
    POSITIONS,
    PRODUCTS,
    SHOWN,
    TABS,
    AttentionState,
)
from quantviz.lab.layer_state import AS_IT_IS
from quantviz.live.layer_payload import Multiplication
from quantviz.ui.components.cell import steps_html
from quantviz.ui.components.clipboard import show_copy_link
from quantviz.ui.components.controls import (
    Control,
    choose_field,
    number_control,
    place_controls,
    show_controls,
    show_undo,
)
from quantviz.ui.components.page_header import show_header
from quantviz.ui.components.small_parts import (
    number_html,
    problem_instead,
    show_button,
    show_folded,
    show_page_errors,
    table_html,
)
from quantviz.ui.components.tensor_cache import catalog_of
from quantviz.ui.lab.dropped_files import CAPTURE, HEADS, dropped_files, dropped_kind
from quantviz.ui.layers.picture import show_multiplication
from quantviz.ui.layers.state import MOST_PIXELS, kept_fact
from quantviz.ui.layers.words import percent, scheme_name
from quantviz.ui.shell.bounds import ATTENTION_SCORES, HEAVY_PRODUCTS
from quantviz.ui.shell.imports import warm_up
from quantviz.ui.shell.long_work import heavily, read_file
from quantviz.ui.shell.page_owner import PageOwner
from quantviz.ui.shell.tab import name_tab, show_sheets
from quantviz.ui.shell.words import number, say, say_error, sentences, share, unbroken

if TYPE_CHECKING:
    from quantviz.models.attention_view import AttentionCell, AttentionTask, AttentionView
    from quantviz.models.heads import Heads
    from quantviz.sources.files import Catalog


T = TypeVar("T")
_READ = "attention_read"
#: Keys with a scale for each channel, beside which the chosen ones are shown.
CHANNEL_KEYS = "int4_per_column"

OWNER = PageOwner(AttentionState)


@dataclass(frozen=True, eq=False)
class OpenedHeads:
    """Heads that are shown."""

    heads: Heads
    #: Names them.
    key: str
    #: The names of all heads in their file; none of built-in ones.
    names: tuple[str, ...] = ()
    name: str = ""
    #: The channels that a head may have, of captured layers, with those taken first.
    widths: tuple[int, ...] = ()
    #: How their outputs stand; see `Projections.layout`.
    layout: str = "apart"

    @property
    def products(self) -> float:
        """Return about the multiplications of their attention."""
        return 2.0 * math.prod(self.heads.q.shape) * self.heads.k.shape[-2]


def opened_heads(state: AttentionState) -> OpenedHeads:
    """Return the heads of the state.

    Raises:
        QuantVizError: This session has no such file, or its tensors are no queries, keys and values.
    """
    from quantviz.models.heads import BUILT_IN_HEADS, heads_of_model

    if state.heads != DROPPED:
        key = f"heads {state.heads} {state.layer}"
        made = BUILT_IN_HEADS.get(state.heads) or partial(heads_of_model, state.heads, state.layer)
        return OpenedHeads(kept_fact(key, made, shared=True), key)
    captured = bool(state.file) or dropped_kind() == CAPTURE
    kind = CAPTURE if captured else HEADS
    dropped = None if state.file else dropped_files(kind)
    wanted = (dropped, state.file, state.name, state.width)
    held = st.session_state.get(_READ)
    if held is None or held[0] != wanted:
        if dropped is None:
            catalog = catalog_of(state.file)
        else:
            from quantviz.sources.sandbox import Held
            from quantviz.sources.sandboxed import Sandboxed

            (file,) = dropped.files
            catalog = Sandboxed(Held(file.name, file.path), read_file)
        key = f"heads {state.file or (dropped and dropped.folder)}"
        read = _made_by_layers if captured else _in_file
        held = st.session_state[_READ] = wanted, read(catalog, key, state)
    opened: OpenedHeads = held[1]
    return opened


def _made_by_layers(catalog: Catalog, key: str, state: AttentionState) -> OpenedHeads:
    """Return the heads that captured layers make of their inputs."""
    from quantviz.layers.captures import captured_in
    from quantviz.models.heads import heads_of_layers, names_of_projections, projections_of

    layers = captured_in(catalog)
    found = names_of_projections(layers.names)
    name = state.name or next(iter(found), "")
    made = projections_of(layers, name)
    widths = made.widths
    width = state.width if state.width in widths else widths[0]
    heads = heads_of_layers(layers, made, width, ATTENTION_SCORES)
    return OpenedHeads(heads, f"{key} {name} {width}", tuple(found), name, (width, *widths), made.layout)


def _in_file(catalog: Catalog, key: str, state: AttentionState) -> OpenedHeads:
    """Return the heads in a file."""
    from quantviz.models.heads import heads_in, names_of_heads

    found = names_of_heads(tuple(catalog.names))
    name = state.name or next(iter(found), "")
    if name in found:
        q, k = (catalog.info(found[name][part]).shape for part in "qk")
        if math.prod(q[:-1]) * math.prod(k[-2:-1]) > ATTENTION_SCORES:
            raise QuantVizError("attention.too_large", q=q, k=k, most=ATTENTION_SCORES)
    return OpenedHeads(heads_in(catalog, name), f"{key} {name}", tuple(found), name)


def name_of_heads(heads: str, layer: int) -> str:
    """Return the name of heads for people."""
    if heads == DROPPED:
        return say("attention.dropped")
    if heads in BUILT_IN[:-1]:
        return say(f"attention.built_in.{heads}")
    return say(f"layers.in_model.{heads}", layer=f"layers.{layer}")


def task_of(state: AttentionState, heads: Heads) -> AttentionTask:
    """Return the schemes and options of the state.

    Raises:
        QuantVizError: A scheme does not fit.
    """
    from quantviz.layers.operands import scheme_of
    from quantviz.models.attention_view import AttentionTask
    from quantviz.models.head_rounding import AttentionOptions

    forms = (state.keys, state.values, state.scores, state.queries, state.weights)
    keys, values, scores, queries, weights = (
        None if form == AS_IT_IS else scheme_of(form, "inputs") for form in forms
    )
    options = AttentionOptions(
        center=state.basis in ("center", "both"),
        hadamard=state.basis in ("hadamard", "both"),
        residual=state.residual,
        queries=queries,
        weights=weights,
        rotary=0.0 if state.positions == "none" else state.rotary,
        rotary_layout="pairs" if state.layout == "pairs" else "halves",
        rounded="before" if state.positions == "before" else "after",
    )
    return AttentionTask((keys, values, scores), mask_of(state, heads), options)


def mask_of(state: AttentionState, heads: Heads) -> str:
    """Return the mask: "none" for the own one of heads that came without."""
    return "none" if state.mask == "own" and heads.mask is None else state.mask


def seen_attention(state: AttentionState, opened: OpenedHeads) -> AttentionView:
    """Return the view of the heads.

    Raises:
        QuantVizError: The shapes do not fit, a scheme does not, or a value is not finite.
    """
    from quantviz.models.attention_view import AttentionLook, view_of

    part = state.lines
    lines = None if part is None else (part.tokens, part.inputs, part.outputs)
    look = AttentionLook(state.head, state.product, state.shown, lines, state.cell, state.channel)
    work = partial(view_of, opened.heads, task_of(state, opened.heads), look, MOST_PIXELS)
    return _found(f"attention {replace(state, held=None, tab='ways')}", opened, work)


def ways_found(state: AttentionState, opened: OpenedHeads) -> Mapping[str, tuple[float, float]]:
    """Return the costs of the ways to round the keys; see `ways_of`."""
    from quantviz.models.attention_view import ways_of

    work = partial(ways_of, opened.heads, task_of(state, opened.heads), CHANNEL_KEYS)
    chosen: Any = state.written()
    looks = ("h", "d", "e", "c", "j", "l", "z", "t", "m")
    key = f"ways {sorted((name, form) for name, form in chosen.items() if name not in looks)}"
    return _found(key, opened, work, times=5)


def _found(key: str, opened: OpenedHeads, work: Callable[[], T], times: int = 1) -> T:
    """Return the result of work on the heads, cached; of many it is a job."""
    key = f"{key} of {opened.key}"
    products = times * opened.products
    shared = not opened.names
    if products < HEAVY_PRODUCTS:
        return kept_fact(key, work, shared=shared)
    return kept_fact(key, lambda: heavily(key, work, products=products), shared=shared, by_job=True)


def show_choices(state: AttentionState, opened: OpenedHeads | None) -> None:
    """Show what is attended to, and how each part is rounded."""
    dropped = (DROPPED,) if dropped_kind() in (HEADS, CAPTURE) else ()
    names = {name: name_of_heads(name, state.layer) for name in (*BUILT_IN, *dropped, state.heads)}
    bases = {name: say(f"attention.basis.{name}") for name in BASES}
    controls = [
        _list("heads", names),
        _list("keys", _schemes(state.keys, KEYS)),
        _list("basis", bases),
        _list("values", _schemes(state.values, (*OTHERS, "int4_per_column"))),
    ]
    if opened is not None and len(opened.names) > 1:
        each = {name: name for name in opened.names}
        controls.insert(1, _list("name", each, state.name or opened.name))
    if opened is not None and opened.widths:
        widths = {str(width): str(width) for width in sorted(set(opened.widths))}
        controls.insert(2, _list("width", widths, str(opened.widths[0])))
    show_controls("layers_schemes", OWNER, *controls, look="qv-inside")
    with st.popover(say("layers.more"), key="attention_more"):
        _show_more(state, opened)


def _show_more(state: AttentionState, opened: OpenedHeads | None) -> None:
    masks = [name for name in MASKS if name != "own" or (opened and opened.heads.mask is not None)]
    mask = mask_of(state, opened.heads) if opened else state.mask
    controls = [
        *(_list(name, _schemes(getattr(state, name), OTHERS)) for name in ("scores", "queries", "weights")),
        _list("mask", {name: say(f"attention.mask.{name}") for name in masks}, mask),
        _list("positions", {name: say(f"attention.positions.{name}") for name in POSITIONS}),
    ]
    numbers = [
        number_control(
            "residual",
            say("attention.choice.residual"),
            state.residual,
            lambda tokens: OWNER.change(residual=tokens),
            lowest=0,
            highest=MOST_NUMBER,
            help=say("attention.choice.residual_help"),
        ),
    ]
    if state.positions != "none":
        numbers.append(
            number_control(
                "rotary",
                say("attention.choice.rotary"),
                state.rotary,
                lambda base: OWNER.change(rotary=base),
                whole=False,
                lowest=1.0,
                highest=MOST_BASE,
            )
        )
        layouts = {name: say(f"attention.layout.{name}") for name in LAYOUTS}
        controls.append(_list("layout", layouts))
    heads = 1 if opened is None else max(1, opened.heads.q[..., 0, 0].numel())
    if heads > 1:
        controls.insert(0, _list("head", {str(head): str(head) for head in range(heads)}))
    show_controls("attention_more_choices", OWNER, *controls, look="qv-inside")
    show_controls("attention_more_numbers", OWNER, *numbers, look="qv-beside")


def _list(field: str, choices: Mapping[str, str], value: str | None = None) -> Control:
    return Control(
        field,
        "list",
        say(f"attention.choice.{field}"),
        say(f"attention.choice.{field}_help"),
        OWNER.state.form_of(field) if value is None else value,
        choices,
    )


def _schemes(present: str, offered: tuple[str, ...]) -> dict[str, str]:
    """Return the names of the schemes that are offered, and of the present one, which a link may have."""
    return {
        form: say("attention.kivi") if form == KIVI else scheme_name(form, "inputs")
        for form in dict.fromkeys((AS_IT_IS, *offered, present))
    }


#: Products that are shown at once, and those that unfold.
_LISTED = 3


def show_cell(state: AttentionState, view: AttentionView) -> None:
    """Show the selected cell of the product in view."""
    product = view.picture.words.rpartition(".")[2]
    cell = view.cell

    def take(axis: int, to: int) -> None:
        row, column = cell.place
        OWNER.change(cell=(to, column) if axis == 0 else (row, to))

    with st.container(key="layers_place", horizontal=True, vertical_alignment="center", gap="small"):
        words = f"attention_picture.{product}.axes"
        names = {f"attention_{axis}": say(f"{words}.{axis}") for axis in ("token", "output")}
        controls = place_controls(names, cell.place, (view.shape[0], view.shape[2]), take)
        show_controls("attention_cell", OWNER, *controls, look="qv-beside")
    told = "".join(f"<li>{html.escape(line)}</li>" for line in _lines(cell, product))
    st.html(f'<ol class="qv-steps-told">{told}</ol>')
    st.html(f'<div class="qv-products">{_table(cell, product, _LISTED)}</div>')
    with st.container(key="layers_folds", horizontal=True, gap="small"):
        opened = st.expander(
            say("attention.cell.all", count=len(cell.terms)), key="attention_products", on_change="rerun"
        )
        if opened.open:
            listed = _table(cell, product, len(cell.terms))
            opened.html(f'<div class="qv-products" tabindex="0">{listed}</div>')
        words = say(f"attention.cell.steps_{product}", at=cell.chosen)
        show_folded(words, "attention_steps", _show_rounding, cell)


def _lines(cell: AttentionCell, product: str) -> Iterator[str]:
    """Yield the cell's arithmetic, a step a line."""
    before, after = cell.sums
    yield say(
        f"attention.cell.sum_{product}",
        count=len(cell.terms),
        before=short_number(before, 4),
        after=short_number(after, 4),
        error=number(after - before, 3, signed=True),
    )
    if product == "output":
        return
    values = {"before": short_number(cell.values[0], 4), "after": short_number(cell.values[1], 4)}
    yield say("attention.cell.factor", factor=short_number(cell.factor, 4), **values)
    if not cell.seen:
        yield say("attention.cell.hidden")
        return
    p, p_hat = cell.weights
    yield say("attention.cell.softmax", before=share(p), after=share(p_hat))
    if not math.isnan(cell.kl_part):
        parts = {"before": short_number(p, 3), "after": short_number(p_hat, 3)}
        part, row = number(cell.kl_part, 3, signed=True), short_number(cell.kl_row, 3)
        yield say("attention.cell.kl", **parts, part=part, row=row)


def _table(cell: AttentionCell, product: str, most: int) -> str:
    """Return the products as a table, those first that bring most of the error; a click on one chooses it."""
    rows = []
    for term in cell.terms[:most]:
        marked = ' class="qv-selected"' if term.at == cell.chosen else ""
        numbers = "".join(f"<td>{short_number(value)}</td>" for value in (term.change, *term[1:5]))
        rows.append(
            f'<tr data-channel="{term.at}"{marked}><td><button type="button">{term.at}</button></td>'
            f"{numbers}</tr>"
        )
    heads = [
        say(f"attention.cell.heads.{product}.{name}") for name in ("at", "change", "x", "x_hat", "w", "w_hat")
    ]
    return table_html(heads, rows)


def _show_rounding(cell: AttentionCell) -> None:
    """Show every step of the rounding of the chosen product's key or value."""
    if cell.rounded is None:
        st.caption(say("attention.cell.as_it_is"))
        return
    mean, why = cell.rounded
    if mean:
        st.caption(say("attention.cell.mean", mean=short_number(mean, 4), rest=short_number(why.x, 4)))
    if OWNER.state.basis in ("hadamard", "both"):
        st.caption(say("attention.cell.hadamard"))
    st.html(steps_html(why))


#: A way is offered that leaves at most this share of the KL divergence.
_WORTH = 0.9


def show_page() -> None:
    """Show the attention of the state's heads."""
    show_sheets(*map(Path(__file__).with_name, ("layers.css", "attention.css")))
    state = OWNER.state
    named = name_of_heads(state.heads, state.layer)
    title = " › ".join((say("pages.attention"), named))
    name_tab(say("pages.attention"), named)
    _, actions = show_header(title, "", ("pages/explore/layers.py", say("pages.layers")))
    with actions:
        show_undo(OWNER)
        show_copy_link()
    finding = st.container(key="layers_look")
    # A container without an element has no room in the page.
    finding.empty()
    choices = st.container(key="layers_choices", horizontal=True, gap="small")
    warm_up()
    show_page_errors(*OWNER.problems)
    opened = _opened(state)
    with choices:
        show_choices(state, opened)
    if opened is not None:
        with problem_instead():
            view = seen_attention(state, opened)
            state = _settled(state, view)
            OWNER.amend(state)
            with finding:
                words = html.escape(unbroken(_finding(state, view)))
                st.html(f'<p class="qv-finding">{words}</p>')
                if opened.widths:
                    split = "" if opened.layout == "apart" else say(f"attention.split.{opened.layout}")
                    st.caption(sentences(say("attention.made", tokens=opened.heads.k.shape[1]), split))
            _show_attention(state, opened, view)
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
                    names = {
                        name: say(f"attention.tab.{name}") for name in TABS if name != "heads" or several
                    }
                    choose_field(OWNER, "tab", "row", say("layers.tabs"), names, look="qv-unnamed qv-tabs")
                with st.container(key=f"attention_tab_{state.tab}", gap="xsmall"):
                    if state.tab == "cell":
                        show_cell(state, view)
                    elif state.tab == "ways":
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
