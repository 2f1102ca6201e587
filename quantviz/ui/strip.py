"""The strip above the picture: the scheme, in four decisions.

Callbacks turn what a widget shows into another scheme; `session.complaining` keeps what cannot be.
"""

from __future__ import annotations

import streamlit as st

from quantviz.formats import FORMATS
from quantviz.granularity import Granularity, PerBlock, PerChannel, PerGroup, PerTensor, Shape, divisors
from quantviz.link import LabState, View
from quantviz.scheme import MODES
from quantviz.ui import session
from quantviz.ui.room import locked
from quantviz.ui.signs import show_lock
from quantviz.ui.words import plain, say, say_error

#: The widths that are offered, from the formats there are.
BITS = sorted({fmt.bits for fmt in FORMATS.values() if fmt.kind == "integer"})


def show_strip(state: LabState) -> None:
    """Bits, sign, mode, and one scale for what."""
    with st.container(key="strip", horizontal=True, vertical_alignment="bottom", gap="small"):
        _number_format(state)
        _mode(state)
        _granularity(state)
    _reasons(state)


# ---- number format and mode ---------------------------------------------------------------------


def _number_format(state: LabState) -> None:
    fmt = state.scheme.number_format
    st.segmented_control(
        say("strip.bits"),
        BITS,
        key=session.show("bits", fmt.bits),
        required=True,
        on_change=session.safely(_set_format),
        help=say("strip.bits_help"),
        format_func=str,
        disabled=locked("scheme"),
    )
    st.segmented_control(
        say("strip.sign"),
        ("signed", "unsigned"),
        key=session.show("sign", "signed" if fmt.signed else "unsigned"),
        required=True,
        on_change=session.safely(_set_format),
        format_func=lambda name: say(f"strip.{name}"),
        help=say("strip.sign_help"),
        disabled=locked("scheme"),
    )


def _set_format() -> None:
    prefix = "int" if st.session_state["sign"] == "signed" else "uint"
    with session.complaining("strip"):
        session.put_scheme(format=f"{prefix}{st.session_state['bits']}")


def _mode(state: LabState) -> None:
    st.segmented_control(
        say("strip.mode"),
        MODES,
        key=session.show("mode", state.scheme.mode),
        required=True,
        on_change=session.safely(_set_mode),
        format_func=lambda name: say(f"modes.{name}.name"),
        help=say("strip.mode_help"),
        disabled=locked("scheme"),
    )


def _set_mode() -> None:
    scheme = session.state().scheme
    mode = st.session_state["mode"]
    calibration = scheme.calibration
    if mode == "symmetric" and calibration.id == "given":
        # Symmetric has zero point 0: the scale is kept.
        calibration = type(calibration)(calibration.scale)  # type: ignore[attr-defined, call-arg]
    with session.complaining("strip"):
        session.put_scheme(mode=mode, calibration=calibration)


# ---- one scale for … ----------------------------------------------------------------------------


def choices(shape: Shape, view: View) -> dict[str, Granularity]:
    """What one scale can be for, by the name of the button, in the order of the buttons."""
    offered: dict[str, Granularity] = {"tensor": PerTensor(), "row": PerChannel(view.rows if view.rows is not None else -2), "column": PerChannel(view.cols)}
    offered |= {f"axis{axis}": PerChannel(axis) for axis in range(len(shape)) if axis not in (view.rows, view.cols)}
    rows, cols = (shape[-2] if len(shape) > 1 else 1), shape[-1]
    return offered | {"group": PerGroup(_usual(shape[view.cols], 32), view.cols), "block": PerBlock(_usual(rows, 4), _usual(cols, 4))}


def chosen(state: LabState) -> str | None:
    """The button that stands for the scheme's granularity."""
    granularity, axes = state.scheme.granularity, len(state.source.shape)
    if isinstance(granularity, PerChannel):
        found = {"row": state.view.rows, "column": state.view.cols}
        return next((name for name, axis in found.items() if axis == granularity.axis % axes), f"axis{granularity.axis % axes}")
    return {PerTensor.id: "tensor", PerGroup.id: "group", PerBlock.id: "block"}.get(granularity.id)


def _granularity(state: LabState) -> None:
    now = chosen(state)
    with st.container(key="granularity", gap=None, width="content"):
        st.markdown(say("strip.granularity"), help=say("strip.granularity_help"))
        with st.container(key="granularity_buttons", horizontal=True, gap=None, width="content", wrap=True):
            for name, granularity in choices(state.source.shape, state.view).items():
                problem = next(iter(granularity.shape_problems(state.source.shape)), None)
                st.button(
                    say(f"strip.per_{name}" if not name.startswith("axis") else "strip.per_axis", axis=name.removeprefix("axis")),
                    key=f"per_{name}",
                    type="primary" if name == now else "secondary",
                    disabled=problem is not None or locked("scheme"),
                    help=_help(name, granularity) if not problem else say("strip.one_axis") if len(state.source.shape) == 1 else say_error(problem),
                    on_click=session.safely(_set_granularity),
                    args=(granularity,),
                )
    if now == "group":
        _group_size(state)
    elif now == "block":
        _block_size(state)


def _help(name: str, granularity: Granularity) -> str:
    key = name if not name.startswith("axis") else "axis"
    axis = getattr(granularity, "axis", None)
    return plain(say(f"strip.per_{key}_help", axis=axis)) + (f" `axis={axis}`" if axis is not None else "")


def _set_granularity(granularity: Granularity) -> None:
    if granularity.id == session.state().scheme.granularity.id and granularity.id in (PerGroup.id, PerBlock.id):
        return
    with session.complaining("strip"):
        session.put_scheme(granularity=granularity)


def _group_size(state: LabState) -> None:
    granularity, shape = state.scheme.granularity, state.source.shape
    assert isinstance(granularity, PerGroup)
    axis = granularity.axis % len(shape)
    st.selectbox(
        say("strip.size"),
        divisors(shape[axis])[1:] or [1],
        key=session.show("group_size", granularity.size),
        on_change=session.safely(_set_group),
        disabled=locked("scheme"),
        width=76,
    )
    if len(shape) > 1:
        st.selectbox(
            say("strip.along"),
            range(len(shape)),
            key=session.show("group_axis", axis),
            on_change=session.safely(_set_group),
            format_func=lambda i: say("strip.along_row") if i == state.view.cols else say("strip.along_column") if i == state.view.rows else f"axis {i}",
            disabled=locked("scheme"),
            width=100,
        )


def _set_group() -> None:
    shape = session.state().source.shape
    axis = st.session_state.get("group_axis", 0)
    wanted = PerGroup(st.session_state["group_size"], axis)
    with session.complaining("strip"):
        session.put_scheme(granularity=wanted.fitted(shape))


def _block_size(state: LabState) -> None:
    granularity, shape = state.scheme.granularity, state.source.shape
    assert isinstance(granularity, PerBlock)
    for label, key, length, now in (
        (say("strip.block_rows"), "block_rows", shape[-2], granularity.rows),
        (say("strip.block_cols"), "block_cols", shape[-1], granularity.cols),
    ):
        st.selectbox(label, divisors(length), key=session.show(key, now), on_change=session.safely(_set_block), disabled=locked("scheme"), width=76)


def _set_block() -> None:
    with session.complaining("strip"):
        session.put_scheme(granularity=PerBlock(st.session_state["block_rows"], st.session_state["block_cols"]))


def _usual(length: int, size: int) -> int:
    """The usual size for a new choice: at most `size`, a divisor, and smaller than the whole axis where it can be."""
    fitting = [n for n in divisors(length) if n <= size]
    smaller = [n for n in fitting if 1 < n < length]
    return (smaller or fitting)[-1]


def _reasons(state: LabState) -> None:
    """Why buttons are grey, in one line, and what could not be set."""
    show_lock("scheme")
    if len(state.source.shape) == 1:
        st.caption(say("strip.one_axis"))
    if "strip" in session.complaints():
        st.error(say_error(session.complaints()["strip"]))
