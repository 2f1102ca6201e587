"""The controls of the formats page: two formats, the number, the rule for ties and the line's layout."""

from __future__ import annotations

from collections.abc import Mapping

from quantviz.schemes.formats import FORMATS, entry_of
from quantviz.ui.components.controls import Control, show_controls, undo_controls
from quantviz.ui.components.refusals import error_beside, show_error_beside
from quantviz.ui.formats.codes import format_name
from quantviz.ui.formats.state import OWNER, FormatsState, can_be_one, number_shown, ties_offered
from quantviz.ui.shell.words import say

#: Kind of format that is offered first.
_KINDS = ("float", "integer", "codebook")
_TYPED = "formats_x"


def show_actions(state: FormatsState) -> None:
    """Show the title's controls."""
    possible = can_be_one(state)
    about = say("formats.page.to_one_help" if possible else "formats.page.to_one_large")
    to_one = Control(
        "to_one", "switch", say("formats.page.to_one"), about, state.form_of("to_one"), disabled=not possible
    )
    show_controls("formats_actions", OWNER, to_one, *undo_controls(OWNER))


def show_choices(state: FormatsState) -> None:
    from quantviz.figures.format_values import VIEWS

    def choice(field: str, names: Mapping[str, str], about: str | None = None, kind: str = "list") -> Control:
        helped = say(f"formats.page.{field}_help") if about is None else about
        return Control(field, kind, say(f"formats.page.{field}"), helped, state.form_of(field), names)

    offered = sorted(FORMATS.values(), key=lambda fmt: (_KINDS.index(fmt.kind), fmt.bits))
    kinds = {kind: say(f"formats.picker.{kind}") for kind in _KINDS}
    names = {fmt.id: f"{format_name(fmt)} · {kinds[fmt.kind]}" for fmt in offered}
    about = {fmt.id: say(f"formats.{entry_of(fmt.id)}.help") for fmt in state.formats}
    show_controls(
        "formats_choices",
        OWNER,
        choice("first", names, about[state.first]),
        Control("swap", "button", "⇄", say("formats.page.swap"), disabled=not state.second),
        choice("second", {"none": say("formats.page.none"), **names}, about.get(state.second, "")),
        Control(
            "x",
            "text",
            say("formats.page.number"),
            say("formats.page.number_help"),
            number_shown(state),
            wrong=error_beside(_TYPED) is not None,
        ),
        choice("ties", {name: say(f"formats.ties.{name}") for name in ties_offered()}),
        choice("view", {name: say(f"formats.views.{name}") for name in VIEWS}, kind="row"),
    )
    show_error_beside(_TYPED)
