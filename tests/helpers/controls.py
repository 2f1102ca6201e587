"""Controls that the browser draws from data: what they show, and choices in them, without a browser."""

import json

from tests.helpers.messages import events_of, send


def bars(at):
    """The ids of a page's rows of controls, with their data."""
    components = at.get("bidi_component")
    named = (each.proto for each in components if each.proto.component_name.startswith("quantviz_controls"))
    return {each.id: json.loads(each.json) for each in named}


def controls(at):
    """The controls of a page as the browser gets them, by their fields."""
    return {each["field"]: each for bar in bars(at).values() for each in bar["controls"]}


def choose(at, *choices):
    """Choose in controls, as quickly as if no choice was answered before the last: each a field, and the form
    of its value in links; of a button the field alone.
    """
    chosen = []
    for number, choice in enumerate(choices, 1):
        field, form = (choice, "") if isinstance(choice, str) else choice
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
