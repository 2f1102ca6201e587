"""A plan of a class for tests: each kind of question that needs no lesson."""

from quantviz.rooms.plan import Plan, Stop

PLAN = Plan(
    (
        Stop("choice", "", 3, ask="Which?", options=("left", "right", "neither")),
        Stop("number", "", 3, ask="How large?"),
        Stop("drag", "x=normal", 3, ask="Drag it."),
        Stop("hole", "bell", 5),
        Stop("lab", "x=normal", 2, "wall"),
    )
)
