"""Controls that the browser draws from data: what they show, and choices in them, without a browser."""

import json

from tests.helpers.messages import events_of, send

#: What is left out of a control's data.
USUAL = {"help": "", "value": "", "icon": "", "choices": [], "disabled": False, "wrong": False}


def _header(packed):
    """The header of what `quantviz.browser.packing` has packed."""
    return json.loads(packed[4 : 4 + int.from_bytes(packed[:4], "little")])


def bars(at):
    """The ids of a page's rows of controls, with their data."""
    components = at.get("bidi_component")
    named = (each.proto for each in components if each.proto.component_name.startswith("quantviz_controls"))
    return {each.id: _header(each.bytes) for each in named}


def controls(at):
    """The controls of a page as the browser gets them, by their fields."""
    every = [{**USUAL, **each} for bar in bars(at).values() for each in bar["controls"]]
    # A phone has some of them twice: the first has all choices.
    return {each["field"]: each for each in reversed(every)}


def words_of(at, field):
    """The words of a control's choices."""
    return [words for _, words, *_ in controls(at)[field]["choices"]]


def reason(at, field, form):
    """Why a choice is impossible; "" where it is possible."""
    choices = controls(at)[field]["choices"]
    return next("".join(why) for each, _, *why in choices if each == form)


def choose(at, *choices):
    """Choose in controls, as quickly as if no choice was answered before the last: each a field, and the form
    of its value in links; of a button the field alone.
    """
    chosen = []
    for number, choice in enumerate(choices, 1):
        field, form = (choice, "") if isinstance(choice, str) else choice
        form = str(form)
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
