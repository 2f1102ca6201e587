"""Controls that the browser draws from data: what they show, and choices in them, without a browser."""

import json

from tests.helpers.messages import events_of, send

#: What is left out of a control's data.
USUAL = {
    **dict.fromkeys(("label", "help", "value", "icon", "phone", "example"), ""),
    **{"choices": [], "limits": [], "disabled": False, "wrong": False},
}


def header(packed):
    """The header of what `quantviz.browser.packing` has packed."""
    return json.loads(packed[4 : 4 + int.from_bytes(packed[:4], "little")])


def bars(at):
    """The ids of a page's rows of controls, with their data."""
    components = at.get("bidi_component")
    named = (each.proto for each in components if each.proto.component_name.startswith("quantviz_controls"))
    return {each.id: header(each.bytes) for each in named}


def controls(at):
    """The controls of a page as the browser gets them, by their fields."""
    shown = {}
    for bar in bars(at).values():
        for each in bar["controls"]:
            shown[each["field"]] = {**USUAL, **each}
    return shown


def value_of(at, field):
    """The form of what a control shows."""
    return controls(at)[field]["value"]


def words_of(at, field):
    """The words of a control's choices, but for those that say that nothing is chosen."""
    return [words for form, words, *why in controls(at)[field]["choices"] if form or not why]


def reason(at, field, form):
    """Why a choice is impossible; "" where it is possible."""
    choices = controls(at)[field]["choices"]
    return next("".join(why) for each, _, *why in choices if each == form)


def choose(at, *choices):
    """Choose in controls, as quickly as if no choice was answered before the last: each a field, and the
    value or its form in links; of a button the field alone.
    """
    chosen = []
    for number, choice in enumerate(choices, 1):
        field, form = (choice, "") if isinstance(choice, str) else choice
        if isinstance(form, list | tuple):
            form = "\n".join(map(str, form))
        switched = isinstance(form, bool) and controls(at)[field]["kind"] == "switch"
        form = ("1" if form else "") if switched else str(form)
        bar, data = next(
            (bar, data)
            for bar, data in bars(at).items()
            if field in (each["field"] for each in data["controls"])
        )
        # A browser opens undo with the first choice.
        assert number > 1 or not controls(at)[field]["disabled"], field
        chosen.append([data["taken"] + number, data["owner"], field, form])
    return tell(at, bar, *chosen)


def tell(at, bar, *chosen):
    """Send the page what hands have chosen, as the row of controls `bar` does."""
    return send(at, events_of(bar, json.dumps([{"event": "chosen", "value": chosen}])))
