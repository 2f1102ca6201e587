"""The picture of the multiplication and its loud channels, tied to the page, and the numbers beside it."""

from __future__ import annotations

import html
from collections.abc import Mapping
from functools import partial
from typing import Any

import streamlit as st

from quantviz.browser.packing import pack
from quantviz.errors import QuantVizError
from quantviz.evaluation.metric_formulas import bits_per_element
from quantviz.figures.layer_plots import part_colours
from quantviz.figures.multiplication import ColourEnds, multiplication_alt, multiplication_figure
from quantviz.figures.numbers import short_number
from quantviz.lab.layer_moves import moved_layer
from quantviz.lab.layer_remedy import best_remedy
from quantviz.lab.layer_state import NEAREST, SHOWN, LayerPart, LayerState
from quantviz.layers.integer_result import IntegerResult
from quantviz.layers.layer_picture import LayerPicture
from quantviz.layers.operands import Operand
from quantviz.live.hand_words import Looks
from quantviz.live.layer_page import LayerPage
from quantviz.live.layer_payload import LayerHand, Multiplication
from quantviz.schemes.calibration import ManualRange
from quantviz.ui.components.component import component, counted
from quantviz.ui.components.controls import choose_field
from quantviz.ui.components.small_parts import number_html, show_button, show_save_page, term
from quantviz.ui.layers.state import OWNER, SeenLayer
from quantviz.ui.layers.words import decibels, percent, scheme_name, share_of, stacked_bar
from quantviz.ui.shell.classroom import is_open
from quantviz.ui.shell.page_owner import PageOwner
from quantviz.ui.shell.words import language, method_name, say, sentences, shape_text, theme, unbroken

#: The key of the chart.
PICTURE = "layers_picture"
_BRIDGE = "layers_bridge"
_SCRIPT = "multiplication_bridge"
#: CSS pixels of the picture until the browser sends the height of its place, which is this on a laptop.
_HEIGHT = 412
_MEASURED = "layers_height"
#: The largest error of float32's own, as a share of the largest value.
_NOISE = 1e-6


def show_picture(
    seen: SeenLayer, state: LayerState, selected: tuple[int, int, int | None], *, hand: bool
) -> None:
    """Show X, Wᵀ and Y of the part in view, and their controls in the corner between X and Wᵀ.

    `selected` is a token, an output, and the channel of a product if one is chosen. With `hand`, the input
    and the weight of that product can be dragged.
    """
    lines = state.lines or LayerPart.whole(seen.result.shape)
    picture = seen.picture(lines, state.shown)
    with st.container(key="layers_shown", horizontal=True, vertical_alignment="center", gap="small"):
        names = {name: say(f"layers.values.{name}") for name in SHOWN}
        label = say("layers.shown")
        choose_field(OWNER, "shown", "row", label, names, key="layers_values", look="qv-unnamed")
        if state.lines is not None:
            show_button(say("layers.whole"), "layers_whole", lambda: OWNER.change(lines=None))
        if state.shown == "error" and state.held != errors_reach(seen):
            show_button(say("layers.fit"), "layers_fit", lambda: OWNER.change(held=None))
        about = term(say("layers.how"), say(_hint(picture)), key="layers_how")
        st.html(f'<p class="qv-small">{about}</p>', width="stretch")
    show_multiplication(OWNER, multiplication_of(seen, state, picture, selected, hand=hand))


def multiplication_of(
    seen: SeenLayer,
    state: LayerState,
    picture: LayerPicture,
    selected: tuple[int, int, int | None],
    *,
    hand: bool,
) -> Multiplication:
    """Return a picture of the layer with what a page knows of it."""
    loud = next(iter(seen.channels.loud_inputs), None)
    held = seen.result.held_back.nonzero().flatten().numpy()
    return Multiplication(picture, _ends(seen, picture, state), seen.result.shape, selected, loud, held, hand)


def _hint(picture: LayerPicture) -> str:
    if picture.sampled:
        return "layers.hint_sampled"
    exact = picture.x.exact and picture.w.exact
    return "layers.hint_exact" if exact else "layers.hint_pooled"


def settled(seen: SeenLayer, state: LayerState) -> LayerState:
    """Return the state with what stays from now on: the selected output, and the ends of the error's colours.

    An end is that of the first schemes under which the layer has an error there.
    """
    if state.cell is None:
        state = state.replace(cell=seen.worst)
    if state.shown == "error" and not all(state.held or (0,)):
        reach = errors_reach(seen)
        held = state.held or reach
        state = state.replace(held=tuple(old or new for old, new in zip(held, reach, strict=True)))
    return state


def errors_reach(seen: SeenLayer) -> tuple[float, ...]:
    """Return the largest errors of X, W and Y, to three digits, which people are shown.

    An error that is float32's own, as of weights that are exact under their scheme, is none.
    """
    picture = seen.picture(LayerPart.whole(seen.result.shape), "error")
    reach = (float(f"{part.largest:.3g}") for part in (picture.x, picture.w, picture.y))
    sizes = _values_reach(seen, picture)
    return tuple(far if far > _NOISE * size else 0.0 for far, size in zip(reach, sizes, strict=True))


def _values_reach(seen: SeenLayer, picture: LayerPicture) -> tuple[float, ...]:
    """Return the largest values of X, W and Y; of many outputs those in the picture."""
    outputs = picture.y.largest if seen.cells is None else float(seen.cells.y.abs().max())
    return float(seen.channels.x_max.max()), float(seen.channels.w_max.max()), outputs


def _ends(seen: SeenLayer, picture: LayerPicture, state: LayerState) -> ColourEnds:
    """Return the ends of the colours, whatever part is in view."""
    if picture.shown == "error":
        return ColourEnds(*(state.held or errors_reach(seen)))
    x, w, y = _values_reach(seen, picture)
    if picture.shown == "codes":
        whole = seen.picture(LayerPart.whole(seen.result.shape), "codes")
        x, w = whole.x.largest, whole.w.largest
    return ColourEnds(x, w, y)


def show_multiplication(owner: PageOwner[Any], it: Multiplication) -> None:
    """Show a multiplication, and have a script light its lines and report clicks and zooms. The owner's state
    has the fields that a hand may choose in it: cell, channel and lines.
    """
    component("quantviz_multiplication", _SCRIPT)(
        key=_BRIDGE,
        data=pack(*it.payload(PICTURE, _height(), Looks(language(), theme()))),
        on_cell_change=(partial(_take_cell, owner), partial(_is_within, it.shape)),
        on_lines_change=partial(_take_lines, owner, it),
        on_whole_change=lambda _: owner.change(lines=None),
        on_height_change=lambda height: st.session_state.update({_MEASURED: int(height)}),
    )
    with st.container(key=PICTURE):
        st.plotly_chart(
            multiplication_figure(it.picture, it.ends, height=_height(), language=language(), theme=theme()),
            key=f"{PICTURE}_chart",
            height="stretch",
            theme=None,
            config={"displayModeBar": False, "displaylogo": False, "doubleClick": False},
            alt=multiplication_alt(it.picture, it.ends, language()),
        )


def _height() -> int:
    return int(st.session_state.get(_MEASURED, _HEIGHT))


def _is_within(shape: tuple[int, ...], cell: dict[str, Any]) -> bool:
    rows, products, columns = shape
    channel = cell["channel"]
    within: bool = channel is None or channel < products
    return within and bool(cell["token"] < rows and cell["output"] < columns)


def _take_cell(owner: PageOwner[Any], cell: dict[str, Any]) -> None:
    owner.change(cell=(cell["token"], cell["output"]), channel=cell["channel"])


def _take_lines(owner: PageOwner[Any], it: Multiplication, message: dict[str, Any]) -> None:
    lines = LayerPart(*(tuple(message[name]) for name in ("tokens", "inputs", "outputs")))
    if lines.within(it.shape):
        owner.change(lines=None if lines == LayerPart.whole(it.shape) else lines)


def select(token: int, output: int) -> None:
    """Select an output, as by a click on it."""
    lines = OWNER.state.lines
    inside = lines is None or (
        lines.tokens[0] <= token < lines.tokens[1] and lines.outputs[0] <= output < lines.outputs[1]
    )
    OWNER.change(cell=(token, output), **({} if inside else {"lines": None}))


_HAND = "layers_hand"
_HAND_SCRIPT = "layer_hand_component"


def _hand_of(seen: SeenLayer, state: LayerState) -> LayerHand:
    """Return the layer as a hand moves it."""
    return LayerHand(seen.result, seen.channels, state, lambda: seen.unchanged, Looks(language(), theme()))


def show_hand(seen: SeenLayer, state: LayerState, selected: tuple[int, int, int]) -> bool:
    """Show how loud each input channel is, with the ceiling that the one scale of X reaches; of a small layer
    the size of an input channel and a weight can be moved too. Return whether they can.

    Args:
        seen: The layer under the schemes of the state.
        state: The state.
        selected: Token, output and input channel.
    """
    _, inputs, outputs = seen.result.shape

    def move(message: Mapping[str, Any]) -> None:
        if (message["channel"] or 0) < inputs and message.get("output", 0) < outputs:
            OWNER.put(moved_layer(OWNER.state, message))

    released, take = counted(_HAND, move)
    hand = _hand_of(seen, state)
    integers = _integers(seen, state) if hand.small else None
    header, arrays = hand.payload(PICTURE, selected, integers)
    with st.container(key="layers_knobs" if hand.small else "layers_skyline"):
        component("quantviz_layer_hand", _HAND_SCRIPT)(
            key=_HAND,
            data=pack({**header, "released": released}, arrays),
            on_release_change=take,
        )
    return hand.small


def _integers(seen: SeenLayer, state: LayerState) -> IntegerResult | None:
    """Return the layer in integers; None where the tab is not open, or the schemes have no such layer."""
    if state.open_tab != "integer":
        return None
    try:
        layer = seen.integers(state.engine, state.output_format, state.activation)
    except QuantVizError:
        return None
    # The server alone has each token's own multiplier.
    return None if layer.inputs.scale.dim() else layer


def offer_page(seen: SeenLayer, state: LayerState) -> None:
    """Show a button that saves the layer as a page."""
    if is_open():
        show_save_page(page_of(seen, state), "layer.html", "layer_to_page", "layers.hand.page_help")


def page_of(seen: SeenLayer, state: LayerState) -> LayerPage:
    """Return the whole layer under the state's schemes, with its selected output, as a page."""
    cell = state.cell or seen.worst
    channel = int(seen.products(cell).channels[0]) if state.channel is None else state.channel
    hand = _hand_of(seen, state)
    whole = seen.picture(LayerPart.whole(seen.result.shape), state.shown)
    selected = (*cell, channel)
    picture = multiplication_of(seen, state, whole, selected, hand=hand.small)
    title = f"{state.source.title(language())} · {shape_text(seen.result.shape)}"
    return LayerPage(hand, picture, title, selected)


# ---- the words and numbers beside it ------------------------------------------------------------------

#: The parts of the output error, in the order of their bar.
_IN_BAR = ("inputs", "cross", "weights")


def show_finding(seen: SeenLayer, look: str) -> None:
    """Show what is loud in the layer and what that does, in one sentence; `look` unfolds behind it."""
    more = f" <small>{term(say('layers.more_on_it'), look, key='layers_look')}</small>" if look else ""
    st.html(f'<p class="qv-finding">{html.escape(unbroken(_finding(seen)))}{more}</p>')


def _finding(seen: SeenLayer) -> str:
    """Return the sentence on the side of most of the error: its loudest channel, and who shares its scale."""
    parts = seen.result.parts
    if not seen.result.rel_out.held_back:
        return say("layers.finding.none")
    side = max(("inputs", "weights"), key=lambda each: parts[each].share.held_back)
    loud, sizes, letter = {
        "inputs": (seen.channels.loud_inputs, seen.channels.x_max, "X"),
        "weights": (seen.channels.loud_weights, seen.channels.w_max, "W"),
    }[side]
    if not loud:
        return say("layers.finding.even", side=letter)
    times = short_number(float(sizes[loud[0]] / sizes.median()), 2)
    sharing = _sharing(getattr(seen.result, side), float(sizes[loud[0]]))
    reach = say(f"layers.finding.reach_{sharing}", side=letter)
    return sentences(say(f"layers.finding.loud_{side}", channel=loud[0], times=times), reach)


def _sharing(operand: Operand, size: float) -> str:
    """Return the values that share a scale with a channel's own, the largest of which is `size`: "all"
    others, "some" of them, or "none"; "cut" where the range was set by hand and ends below them.
    """
    if operand.study is None:
        return "none"
    by_hand = operand.study.scheme.calibration
    if isinstance(by_hand, ManualRange) and max(-by_hand.lo, by_hand.hi) < size:
        return "cut"
    layout = operand.study.layout
    if layout.block_count == 1:
        return "all"
    by_column = layout.block_count == operand.shape[1] and layout.block_size == operand.shape[0]
    return "none" if by_column else "some"


def show_numbers(seen: SeenLayer) -> None:
    """Show the output error, large, the shares of X and W in it as a bar, and the other numbers."""
    used, held_back = seen.result.rel_out
    shades = part_colours(theme())
    shares = {name: seen.result.parts[name].share.held_back for name in _IN_BAR}
    # A part that cancels others has no place in the bar.
    sizes = [max(share, 0.0) for share in shares.values()]
    bar = stacked_bar(sizes, [shades[name] for name in _IN_BAR], 0.0, sum(sizes))
    told = (
        f'<span><span class="qv-swatch" style="background:{shades[name]}"></span> '
        f"{number_html(f'layers.numbers.part_{name}', share_of(shares[name]))}</span>"
        for name in _IN_BAR
    )
    others = (
        number_html("layers.numbers.output_db", decibels(seen.output_db)),
        number_html("layers.numbers.weight_db", decibels(seen.weight_db)),
        number_html("layers.numbers.bits", both_bits(seen)),
    )
    error = number_html(
        "layers.numbers.rel_out", percent(held_back), say("layers.numbers.used", used=percent(used))
    )
    st.html(
        f'<div class="qv-layer-numbers"><p class="qv-large">{error}</p>'
        f'<p class="qv-parts">{"".join(told)}</p>'
        f'<i class="qv-share" style="background:{bar}"></i>'
        f'<p class="qv-others">{"".join(others)}</p></div>'
    )


def show_remedy(seen: SeenLayer, state: LayerState) -> None:
    """Show the remedy that leaves the layer the least error, with a button that takes it; nothing where none
    is known.
    """
    if state.method != NEAREST:
        return
    found = seen.found("remedy", partial(best_remedy, pair=state.pair))
    if found is None:
        return
    taken = method_name(found.method)
    if found.method == NEAREST:
        side = "weights" if found.pair.weights != state.pair.weights else "inputs"
        taken = say(f"layers.remedy.finer_{side}", scheme=scheme_name(getattr(found.pair, side), side))
    less = short_number(found.before / found.after, 2) if found.after else "∞"
    fix = say("layers.remedy.fix", remedy=taken, after=percent(found.after), less=less)
    some = say("layers.remedy.some", count=found.outputs, all=seen.result.shape[2])
    words = sentences(fix, some if found.outputs < seen.result.shape[2] else "")
    with st.container(key="layers_fix", horizontal=True, wrap=False, vertical_alignment="center"):
        st.html(f"<p>{html.escape(unbroken(words))}</p>", width="stretch")
        take = partial(OWNER.change, pair=found.pair, method=found.method)
        show_button(say("layers.remedy.take"), "layers_remedy", take)


def both_bits(seen: SeenLayer) -> str:
    """Return the bits of a weight and of an input, with their scales; "–" where nothing is quantized."""
    operands = (seen.result.weights, seen.result.inputs)
    return " · ".join(
        "–" if each.scheme is None else short_number(bits_per_element(each.scheme, each.shape))
        for each in operands
    )
