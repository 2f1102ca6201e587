"""A step as Python: the state it shows, and the numbers of its table and its questions."""

from __future__ import annotations

from collections.abc import Mapping

from quantviz.export.files import python_lines
from quantviz.lab.state import LabState, write_link
from quantviz.teaching.lessons.formulas import HERE, Scene
from quantviz.teaching.lessons.model import Direction, Drag, LessonStep, Number, Order
from quantviz.text import DEFAULT_LANGUAGE, text


def step_code(
    step: LessonStep, scenes: Mapping[str, Scene], state: LabState, language: str = DEFAULT_LANGUAGE
) -> str:
    """Return a script that prints what the step shows of `state`, then what it compares and asks.

    >>> from quantviz.teaching.lessons import lessons
    >>> step = lessons()["range_to_grid"].steps[2]
    >>> scenes = step.scenes()
    >>> print(step_code(step, scenes, scenes["here"].state).splitlines()[-1])
    print("scale", Formula.read("scale", scenes).value(scenes))
    """
    lines = [python_lines(state, language=language)]
    formulas = list(_formulas(step))
    if formulas or step.table:
        lines += ["# " + text("lessons.code_states", language), *_scene_lines(scenes)]
    if step.table:
        for words, name in step.table.rows:
            row = f'{{**scenes, "{HERE}": scenes["{name}"]}}'
            lines.append(f"print({words.say(scenes)!r})")
            lines += [
                f"print({'  ' + heading!r}, {_formula(formula.text)}.value({row}))"
                for heading, formula in step.table.columns
            ]
    lines += [f"print({_quoted(formula)}, {_formula(formula)}.value(scenes))" for formula in formulas]
    return "\n".join(lines)


def _scene_lines(scenes: Mapping[str, Scene]) -> list[str]:
    imports = [
        "from quantviz.teaching.lessons.formulas import Formula, Scene",
        "from quantviz.lab.state import read_link",
        "",
    ]
    parts = {
        name: {key: value for key, value in write_link(scene.state).items() if key in ("t", "s", "c")}
        for name, scene in scenes.items()
    }
    states = [f"    {_quoted(name)}: {link!r}," for name, link in parts.items()]
    return [
        *imports,
        "links = {",
        *states,
        "}",
        "scenes = {name: Scene(read_link(link)[0]) for name, link in links.items()}",
    ]


def _formulas(step: LessonStep) -> list[str]:
    found: list[str] = []
    for question in step.questions:
        if isinstance(question, Direction):
            found += [question.before.text, question.after.text]
        elif isinstance(question, Number):
            found.append(question.answer.text)
        elif isinstance(question, Drag):
            found += [formula.text for formula in question.solution.values()]
        elif isinstance(question, Order):
            found += [item.value.text for item in question.items]
    return list(dict.fromkeys(found))


def _formula(formula: str) -> str:
    return f"Formula.read({_quoted(formula)}, scenes)"


def _quoted(words: str) -> str:
    return '"' + words.replace("\\", "\\\\").replace('"', '\\"') + '"'
