"""Controls of a page that the browser draws from data, and changes at once.

A page says of each control which field of its state it shows, its kind, and its choices. The browser numbers
what hands choose; each message has all choices that no answer knew, in their order, and each counts once.
"""

from __future__ import annotations

import dataclasses
import html
import re
import secrets
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar, cast

import streamlit as st

from quantviz.browser.packing import pack
from quantviz.lab.typed_numbers import read_number
from quantviz.text import visible
from quantviz.ui.components.component import component, last_message
from quantviz.ui.shell import errors
from quantviz.ui.shell.address import page_shown
from quantviz.ui.shell.bounds import FIND_CHARACTERS
from quantviz.ui.shell.classroom import locked
from quantviz.ui.shell.page_owner import PageOwner
from quantviz.ui.shell.run_facts import fact
from quantviz.ui.shell.words import say

T = TypeVar("T", bound=Hashable)

_SCRIPT = "controls_component"
#: The key of `_Choosing` in the session.
_CHOOSING = "controls"
#: Kinds of which several choices are chosen.
_SEVERAL = ("many", "picks")
#: Marks of Markdown in explanations, with their HTML.
_MARKS = {
    re.compile(r"\*\*(.+?)\*\*"): r"<b>\1</b>",
    re.compile(r"`(.+?)`"): r"<code>\1</code>",
    re.compile(r"\^\(([^()]*)\)"): r"<sup>\1</sup>",
    re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)"): r'<a href="\2" target="_self">\1</a>',
    re.compile(r"\n\n"): "<br><br>",
    re.compile(r"\\([^\w\s])"): r"\1",
}


@dataclass(frozen=True)
class Control:
    """A control as the browser draws it."""

    #: The field of the state, or the name of one of its owner's acts.
    field: str
    #: One of "list", "row", "many", "find", "picks", "range", "steps", "switch", "button", "fold", "text",
    #: "digits".
    kind: str
    label: str
    help: str = ""
    #: The form of the present value in links.
    value: str = ""
    #: The words of choices by their forms, and the reasons why some are impossible.
    choices: Mapping[str, str] = dataclasses.field(default_factory=dict)
    reasons: Mapping[str, str] = dataclasses.field(default_factory=dict)
    disabled: bool = False
    icon: str = ""
    #: Its kind on a phone, where that is another one.
    phone: str = ""
    #: Whether what was typed last could not be read.
    wrong: bool = False
    #: The look of a text, or the words for no choice. The limits of a number with its step, "any" where it
    #: need not be whole; of a text's length the second.
    example: str = ""
    limits: tuple[str, ...] = ()
    #: Takes the form of a choice, in place of the owner.
    take: Callable[[str], None] | None = None

    def payload(self) -> dict[str, Any]:
        """Return its data for the browser."""
        why = self.reasons
        choices = [
            (form, words, why[form]) if why.get(form) else (form, words)
            for form, words in self.choices.items()
        ]
        data = {**vars(self), "choices": choices, "help": as_html(self.help), "take": None, "reasons": None}
        # Values that are as usual are not sent, see `USUAL` in `controls/kinds.js`.
        return {name: value for name, value in data.items() if value}


def as_html(words: str) -> str:
    r"""Return the Markdown of an explanation as HTML: strong words, code, powers, links and paragraphs.

    >>> as_html("**a < b** `c`\n\n[d](/e) 2^(3 − 1) \\*")
    '<b>a &lt; b</b> <code>c</code><br><br><a href="/e" target="_self">d</a> 2<sup>3 − 1</sup> *'
    """
    safe = html.escape(words.strip())
    for pattern, made in _MARKS.items():
        safe = pattern.sub(made, safe)
    return safe


def choice_control(
    field: str,
    kind: str,
    label: str,
    names: Mapping[T, str],
    now: T | Iterable[T] | None,
    take: Callable[[Any], None],
    *,
    lock: str = "",
    **more: Any,
) -> Control:
    """Return the control of a choice among the ids in `names`, with their words: `now`, until `take` gets
    another one.

    Of the kinds "many" and "picks", `now` and what `take` gets are several, in the order in which they were
    chosen. A teacher can `lock` its group of controls. `more` is of `Control`.
    """
    # Names of files and tensors may have signs that no message has.
    forms = {visible(str(each)): each for each in names}
    many = kind in _SEVERAL
    nothing = {"": more.get("example", "")} if kind == "list" and now is None else {}
    chosen: Iterable[Any] = now if many and isinstance(now, Iterable) else {now} - {None}

    def take_form(form: str) -> None:
        wanted = [forms[each] for each in form.split("\n") if each in forms]
        if (wanted or many) and not (lock and locked(lock)):
            take(wanted if many else wanted[0])

    return Control(
        field,
        kind,
        label,
        value="\n".join(visible(str(each)) for each in chosen),
        choices=nothing | {form: names[each] for form, each in forms.items()},
        reasons=nothing,
        take=take_form,
        **{"disabled": bool(lock) and locked(lock), **more},
    )


def number_control(
    field: str,
    label: str,
    now: float | None,
    take: Callable[[Any], None],
    *,
    whole: bool = True,
    lowest: float | None = None,
    highest: float | None = None,
    lock: str = "",
    **more: Any,
) -> Control:
    """Return the control of a number that is typed: `take` gets what is within the limits, an int where it is
    `whole`, and `QuantVizError` comes of what cannot be read.
    """
    kind = int if whole else float
    digits = "" if whole else ".6g"

    def take_form(form: str) -> None:
        if not form.strip():
            return
        wanted = kind(read_number(form))
        within = (lowest is None or wanted >= lowest) and (highest is None or wanted <= highest)
        if within and not (lock and locked(lock)):
            take(wanted)

    ends = ("" if end is None else str(end) for end in (lowest, highest))
    return Control(
        field,
        "digits",
        label,
        value="" if now is None else format(now, digits),
        limits=(*ends, "1" if whole else "any"),
        take=take_form,
        **{"disabled": bool(lock) and locked(lock), **more},
    )


def place_controls(
    names: Mapping[str, str],
    place: Iterable[int | None],
    counts: Iterable[int],
    take: Callable[[int, int], None],
) -> Iterator[Control]:
    """Yield a field of a whole number for each axis of a place: `names` are the labels of the fields, and
    `take` gets the axis and where on it the place is to be.
    """
    for axis, ((field, label), now, count) in enumerate(zip(names.items(), place, counts, strict=True)):
        yield number_control(field, label, now, partial(take, axis), lowest=0, highest=count - 1)


def choose_among(
    field: str,
    kind: str,
    label: str,
    names: Mapping[T, str],
    now: Any,
    take: Callable[[Any], None],
    *,
    look: str = "",
    key: str = "",
    **more: Any,
) -> Any:
    """Show a choice by itself, in one of the style's looks, and return `now`; see `choice_control`."""
    show_controls(key or field, None, choice_control(field, kind, label, names, now, take, **more), look=look)
    return now


def hold_choice(
    field: str,
    kind: str,
    label: str,
    names: Mapping[T, str],
    first: Any = None,
    change: Callable[[], object] | None = None,
    **more: Any,
) -> Any:
    """Show a choice that the session keeps under its field's name, and return it: `first` until another is
    made, which `change` follows.
    """
    held = st.session_state.get(field)
    if kind in _SEVERAL:
        now: Any = [each for each in held or () if each in names]
    else:
        now = held if held in names else first
    st.session_state[field] = now

    def take(chosen: Any) -> None:
        st.session_state[field] = chosen
        if change:
            change()

    return choose_among(field, kind, label, names, now, take, key=f"{field}_choice", **more)


class FieldOwner(Protocol):
    """The part of an owner of a state that `field_control` uses."""

    @property
    def page(self) -> str:
        """Return the beginning of the keys of its controls."""

    @property
    def state(self) -> Any:
        """Return the state."""

    def change(self, **changes: Any) -> None:
        """Change fields of the state."""


def field_control(
    owner: FieldOwner, field: str, kind: str, label: str, names: Mapping[T, str], **more: Any
) -> Control:
    """Return the control of a field of an owner's state; see `choice_control`, of which `more` can have the
    `key` in place of the page's and the field's names, and what to show `now` in place of the field's value.
    """
    key = more.pop("key", f"{owner.page}_{field}")
    now = more.pop("now", getattr(owner.state, field))
    return choice_control(
        key, kind, label, names, now, lambda chosen: owner.change(**{field: chosen}), **more
    )


def choose_field(owner: FieldOwner, *control: Any, look: str = "", **more: Any) -> None:
    """Show a choice of a field of an owner's state by itself; see `field_control`."""
    shown = field_control(owner, *control, **more)
    show_controls(shown.field, None, shown, look=look)


def hold_text(
    field: str,
    label: str,
    longest: int,
    take: Callable[[str], object] | None = None,
    look: str = "",
    **more: Any,
) -> str:
    """Show a text that is typed, which the session keeps under its field's name, and return it; `take` gets
    another one.
    """
    now: str = st.session_state.setdefault(field, "")

    def take_form(form: str) -> None:
        if not more.get("disabled"):
            st.session_state[field] = form[:longest]
            if take:
                take(form[:longest])

    control = Control(field, "text", label, value=now, limits=("", str(longest)), take=take_form, **more)
    show_controls(f"{field}_field", None, control, look=look)
    return now


def switch(
    field: str, label: str, names: Mapping[T, str], first: Any = None, look: str = "qv-unnamed"
) -> Any:
    """Show a row of words and return the id of the chosen one, which the session keeps: see `hold_choice`."""
    return hold_choice(field, "row", label, names, first or next(iter(names)), look=look)


def undo_controls(owner: PageOwner[Any]) -> tuple[Control, Control]:
    """Return undo and redo, by an icon each; `history.js` presses them for their keys."""
    steps = {"undo": owner.can_undo, "redo": owner.can_redo}
    undo, redo = (
        Control(name, "button", say(f"lab.{name}"), say(f"lab.{name}_help"), icon=name, disabled=not possible)
        for name, possible in steps.items()
    )
    return undo, redo


def show_undo(owner: PageOwner[Any]) -> None:
    """Show undo and redo."""
    show_controls("undo_controls", owner, *undo_controls(owner))


@dataclass
class _Choosing:
    """The choices of a session."""

    #: A name of the session, that its browser knows its own choices by.
    session: str = dataclasses.field(default_factory=partial(secrets.token_hex, 4))
    #: The number of the last choice that was taken.
    taken: int = 0
    #: The functions that take one, by the page and the field.
    takes: dict[tuple[str, str], Callable[[str], None]] = dataclasses.field(default_factory=dict)


def _choosing() -> _Choosing:
    choices: _Choosing = fact(_CHOOSING, lambda: st.session_state.setdefault(_CHOOSING, _Choosing()))
    return choices


def taken() -> int:
    """Return the number of the last choice that was taken."""
    return _choosing().taken


def opened_list(key: str) -> str | None:
    """Return the field of the long list, among the `answers` shown as `key`, that was opened in this run."""
    field: str | None = last_message(key, _SCRIPT, "opened")
    return field


def show_controls(
    key: str,
    owner: PageOwner[Any] | None,
    *controls: Control,
    look: str = "",
    answers: Mapping[str, Any] | None = None,
) -> None:
    """Show controls beside each other, in one of the style's looks: of fields of an owner's state, or ones
    that take what is chosen. And say what the page's controls answer.
    """
    choosing = _choosing()
    place = owner.page if owner else page_shown()
    for each in controls:
        take = partial(_choose, owner, each.field) if owner else None
        choosing.takes[place, each.field] = cast("Callable[[str], None]", each.take or take)
    data = {
        "session": choosing.session,
        "page": page_shown(),
        "owner": place,
        "taken": choosing.taken,
        "key": key,
        "look": look,
        "controls": [each.payload() for each in controls],
    }
    if answers:
        data["answers"] = dict(answers)
    component("quantviz_controls", _SCRIPT, isolated=False)(
        key=key, data=pack(data, {}), on_chosen_change=_take
    )


def _take(chosen: Iterable[tuple[int, str, str, str]]) -> None:
    choosing = _choosing()
    for number, page, name, form in chosen:
        take = choosing.takes.get((page, name))
        if take is None or number <= choosing.taken:
            continue
        choosing.taken = number
        errors.safely(take)(form)


def _choose(owner: PageOwner[Any], field: str, form: str) -> None:
    with errors.caught_beside(f"{owner.page}_{field}"):
        owner.choose(field, form)


def finder(wanted: str | None) -> Callable[[str], bool]:
    """Return whether a name has all the words that were typed; without any, every name has them.

    A browser can send a longer text than a person types, and there are many names: the rest is left out.

    >>> found = finder("up LAYERS.1")
    >>> found("model.layers.1.up.weight"), found("model.layers.0.up.weight"), finder("")("a")
    (True, False, True)
    """
    words = tuple(dict.fromkeys((wanted or "")[:FIND_CHARACTERS].lower().split()))

    def has_all(name: str) -> bool:
        lower = name.lower()
        return all(word in lower for word in words)

    return has_all
