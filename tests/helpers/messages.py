"""What a browser may send a page: messages of components and widgets, right ones and forged."""

import json

from streamlit.proto.WidgetStates_pb2 import WidgetState

from quantviz.browser.messages import (
    Either,
    FixedList,
    Flag,
    Items,
    Kinds,
    Maybe,
    Named,
    Number,
    Record,
    Text,
    Whole,
    Word,
)

#: What may stand where something else is expected: `hostile` draws one.
HOSTILE = (
    *(None, True, False, 0, -1, 1, 7, 2**31, 2**53, 2**53 + 1, -(2**63), 2**64, 10**30, 10**400),
    *(0.5, -0.0, 1e308, 1e-320, float("nan"), float("inf"), float("-inf")),
    *("", "x", "int4", "1", "__class__", "\x00", "\ud800", "🔬", "../x", "<b>", "{}", "$(id)"),
    *([], {}, [[]], [None], {"": None}, {"kind": "range"}, {"kind": ["x"]}, {"value": 1}, [1, 2, 3]),
)


def right(shape, chance):
    """Something that has the shape, at its ends more often than between."""
    match shape:
        case Flag():
            return chance.random() < 0.5
        case Whole(least, most):
            near = (least, least + 1, least + 2, least + 3, least + 9, most - 1, most)
            return chance.choice([each for each in near if least <= each <= most])
        case Number(least, most):
            near = (least, most, 0, 1, -1.5, 0.1, 240, 1e-45, 1e30)
            return chance.choice([each for each in near if least <= each <= most])
        case Text(most):
            return chance.choice(("", "x", "int4,symmetric,per_tensor,min_max,course", "zh", "x" * most))[
                :most
            ]
        case Word(known):
            return chance.choice(known)
        case Items(of, least, most):
            return [right(of, chance) for _ in range(min(most, least + chance.choice((0, 1, 2))))]
        case FixedList(shapes):
            return [right(each, chance) for each in shapes]
        case Named(of, names, most):
            return {
                right(names, chance): right(of, chance) for _ in range(min(most, chance.choice((0, 1, 3))))
            }
        case Record(fields, optional):
            there = [name for name in fields if name not in optional or chance.random() < 0.5]
            return {name: right(fields[name], chance) for name in there}
        case Kinds(kinds):
            kind = chance.choice(tuple(kinds))
            return {"kind": kind, **right(kinds[kind], chance)}
        case Maybe(of):
            return right(of, chance) if chance.random() < 0.7 else None
        case Either(shapes):
            return right(chance.choice(shapes), chance)


def damaged(value, chance):
    """What was right, with one thing in it that is not, or is missing."""
    if isinstance(value, dict) and value and chance.random() < 0.8:
        name = chance.choice(tuple(value))
        if chance.random() < 0.2:
            return {each: inner for each, inner in value.items() if each != name}
        return value | {name: damaged(value[name], chance)}
    if isinstance(value, list) and value and chance.random() < 0.7:
        at = chance.randrange(len(value))
        return [*value[:at], damaged(value[at], chance), *value[at + 1 :]]
    return hostile(chance)


def hostile(chance):
    """What fits nowhere, or not here; rarely something very long or deep."""
    drawn = chance.random()
    if drawn < 0.02:
        return "x" * 2**20
    if drawn < 0.05:
        value = []
        for _ in range(chance.choice((20, 40, 900))):
            value = [value] if chance.random() < 0.5 else {"x": value}
        return value
    return chance.choice(HOSTILE)


def written(value, chance):
    """The JSON of a value; now and then a text that is none, or none that Python can read."""
    drawn = chance.random()
    if drawn < 0.03:
        return "[" * 10**5
    if drawn < 0.06:
        return chance.choice(("", "nonsense", '{"a":', "[1" + "0" * 5000 + "]", '"text"', "3", "NaN", "null"))
    try:
        return json.dumps(value)
    except (RecursionError, ValueError):  # deeper, or a number longer, than is written
        return "[" * 2000 + "]" * 2000


def components(at):
    """The ids of the components on a page, with their names."""
    return {each.proto.id: each.proto.component_name for each in at.get("bidi_component")}


def state_of(widget_id, text):
    """What a component says of its state, as JSON."""
    return WidgetState(id=widget_id, json_value=text)


def events_of(widget_id, text):
    """What has happened in a component, as JSON: a list of events with their values."""
    return WidgetState(id=f"$$STREAMLIT_INTERNAL_KEY_{widget_id}__events", json_trigger_value=text)


def let_go(at, stop):
    """Let a page's only dial go at a stop."""
    (dial,) = (place for place, name in components(at).items() if name.startswith("quantviz_dial"))
    return send(at, events_of(dial, json.dumps([{"event": "stop", "value": {"stop": stop, "count": 1}}])))


def send(at, *messages):
    """Send a page messages beside what its widgets say, and let it answer."""
    states = at._tree.get_widget_states()
    states.widgets.extend(messages)
    return at._run(states)
