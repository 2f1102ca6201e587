"""Controls of a page: buttons, and those that offer a choice: the only place that makes select boxes, radios,
pills and menus.

The browser identifies a choice by its label and sends that label back with the next click on anything. A
label may have changed by then: with the tensor, whose axes have other names, or with the language. So a label
that is offered no longer is no choice, and the choice is sent to the browser again as soon as labels change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import streamlit as st

from quantviz.lab.state import LabState
from quantviz.ui.shell import errors, session, widgets
from quantviz.ui.shell.classroom import locked
from quantviz.ui.shell.words import say

T = TypeVar("T")


def show_button(label: str, key: str, on_click: Callable[..., None], *args: Any, **look: Any) -> None:
    """Show a button that calls `on_click` with `args`; an error in it is shown as a sentence."""
    st.button(label, key=key, on_click=errors.safely(on_click), args=args, **look)


def choose(
    control: Callable[..., Any],
    label: str,
    options: Iterable[T],
    *,
    key: str,
    format_func: Callable[[T], str] = str,
    on_change: Callable[..., None] | None = None,
    on_click: Callable[..., None] | None = None,
    args: tuple[Any, ...] = (),
    **look: Any,
) -> Any:
    """Show a `control` of Streamlit, such as `st.selectbox`, and return the chosen option.

    Options are ids, which never depend on the tensor; `format_func` gives their words. `on_change` or
    `on_click`, from `errors.safely`, is called with `args`, and only for what is offered now.
    """
    offered = tuple(options)
    if on_click is None:  # a menu keeps nothing, and Streamlit forbids to set its value
        if not _is_offered(st.session_state.get(key), offered):
            del st.session_state[key]
        widgets.tell_again(key, tuple(map(format_func, offered)))
    for event, callback in (("on_change", on_change), ("on_click", on_click)):
        if callback:
            look |= {event: _heed, "args": (key, offered, callback, args)}
    return control(label, offered, key=key, format_func=format_func, **look)


def choose_among(
    control: Callable[..., Any],
    key: str,
    label: str,
    names: Mapping[Any, str],
    now: Any,
    take: Callable[[Any], None] | None = None,
    *,
    lock: str = "",
    field: str = "",
    **look: Any,
) -> Any:
    """Show a choice among the ids in `names`, with their words: `now`, until `take` gets another one. Return
    the chosen id.

    A teacher can `lock` its group of controls. `field` is that of its errors, as in `widgets.show`.
    """

    def changed() -> None:
        chosen = st.session_state[key]
        if take is not None and chosen is not None:  # None where the control was replaced while it loaded
            take(chosen)

    return choose(
        control,
        label,
        tuple(names),
        key=widgets.show(key, now, field),
        on_change=errors.safely(changed),
        format_func=names.__getitem__,
        disabled=bool(lock) and locked(lock),
        **look,
    )


def switch(key: str, label: str, names: Mapping[Any, str], first: Any = None, look: str = "collapsed") -> Any:
    """Show a row of words and return the id of the chosen one, which the control `key` keeps in the session.

    At first it is `first`, else the first of all. `look` is the label's visibility.
    """
    held = st.session_state.get(key)
    now = held if held in names else first or next(iter(names))
    return choose_among(st.segmented_control, key, label, names, now, required=True, label_visibility=look)


def offer(label: str, key: str, on_click: Callable[..., None], *args: Any, lock: str = "scheme") -> None:
    """Show the button that applies an answer; it is grey where a teacher has locked its group of controls."""
    shut = locked(lock)
    show_button(label, key, on_click, *args, disabled=shut, help=say("room.locked") if shut else None)


def widen_list(label: str) -> None:
    """Let the open list of the select box called `label` be wider than the box, for long names.

    The list is no part of its box: it stands at the end of the page, and only while it is open.
    """
    # On a phone the longest names fit in a smaller print.
    st.html(
        f'<style>[data-testid=stSelectboxVirtualDropdown]:has([aria-label="{label}"])'
        " { min-width: min(27rem, 92vw); }"
        f' @media (max-width: 640px) {{ [role=listbox][aria-label="{label}"] [data-item-hl]'
        " { font-size: var(--qv-12); } }</style>"
    )


def choose_field(
    state: LabState,
    field: str,
    question: str,
    options: Iterable[str],
    words: str,
    *,
    helped: bool = False,
    **look: Any,
) -> None:
    """Show a field of the Lab's state as a question with its answers below each other.

    Args:
        state: The present state.
        field: The field's name, which is the control's key.
        question: The control's label.
        options: The ids that the field may have.
        words: The key in the catalogue under which each id has its name.
        helped: Whether each id also has a line that explains it, under its name's key and `_help`.
        **look: More for `st.radio`.
    """
    ids = tuple(options)
    choose(
        st.radio,
        question,
        ids,
        key=widgets.show(field, getattr(state, field)),
        on_change=errors.safely(lambda: session.change(**{field: st.session_state[field]})),
        format_func=lambda name: say(f"{words}.{name}"),
        captions=[say(f"{words}.{name}_help") for name in ids] if helped else None,
        **look,
    )


def _heed(key: str, offered: tuple[Any, ...], callback: Callable[..., None], args: tuple[Any, ...]) -> None:
    """Call back, unless the browser has sent the label of a choice that is no longer offered."""
    if _is_offered(st.session_state[key], offered):
        callback(*args)


def _is_offered(value: object, offered: tuple[Any, ...]) -> bool:
    """Return whether a control's value, one or several of the options or none, is among them."""
    return value is None or all(each in offered for each in (value if isinstance(value, list) else [value]))
