"""A step as Python: the state it shows, and the numbers of its table and its questions."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from quantviz.export.files import PRINTED, python_lines
from quantviz.lab.state import LabState
from quantviz.teaching.lessons.dials import DialState
from quantviz.teaching.lessons.formulas import HERE, TERMS, Scene
from quantviz.teaching.lessons.model import (
    DirectionQuestion,
    DragQuestion,
    LessonStep,
    NumberQuestion,
    OrderQuestion,
)
from quantviz.text import DEFAULT_LANGUAGE, templates, text

#: The term with which a cell's derivation is understood: it goes from x over q to x̂.
_DERIVED = "dequantize"


def step_code(
    step: LessonStep,
    scenes: Mapping[str, Scene],
    state: LabState,
    language: str = DEFAULT_LANGUAGE,
    known: Collection[str] = TERMS,
) -> str:
    """Return a script that prints the step's numbers of `state`, then its comparison and its questions.

    It has only words that are `known`, terms of the glossary: parts with others are left out, and where the
    tensor and its scheme cannot be written without them it is empty.

    >>> from quantviz.teaching.lessons import lessons
    >>> step = lessons()["range_to_grid"].steps[2]
    >>> scenes = step.scenes()
    >>> print(step_code(step, scenes, scenes["here"].state).splitlines()[-1])
    print("scale", Formula.read("scale", scenes).value(scenes))
    >>> step_code(step, scenes, scenes["here"].state, known=["scale"])
    ''
    """

    def script(numbers: Collection[str] = (), cell: bool = False) -> str:
        return python_lines(state, language=language, numbers=numbers, cell=cell, brief=True)

    if _new_words(script(), language, known):
        return ""
    shown = [name for name in PRINTED if name in step.show]
    if "tile_lines" in step.show and "tiles.mse" in step.show:
        shown.append("rmse")
    numbers = [name for name in shown if not _new_words(script([name]), language, known)]
    derived = _DERIVED in known and not _new_words(script(cell=True), language, known)
    if isinstance(step.state, DialState):
        # Its numbers are those of the dial's stops, not of one tensor and its scheme.
        return script(numbers, derived)
    return "\n".join([script(numbers, derived), *_compared(step, scenes, language, known)])


def _new_words(code: str, language: str, known: Collection[str], *, names: bool = True) -> frozenset[str]:
    """Return the terms in commented code that are not `known`; with `names` also parts of joined names."""
    read = code.replace("_", " ") if names else code
    return _met_before(read, language, known) | _met_before(read, DEFAULT_LANGUAGE, known)


def _met_before(text: str, language: str, known: Collection[str]) -> frozenset[str]:
    """Return the terms that a text in a language has words of, and that are not among the `known` ones."""
    met_by = templates("glossary.met_by", language).items()
    unknown = ((term, words) for term, words in met_by if term not in known)
    return frozenset(term for term, words in unknown if re.search(words, text, re.IGNORECASE))


def _compared(
    step: LessonStep, scenes: Mapping[str, Scene], language: str, known: Collection[str]
) -> Iterator[str]:
    """Yield the lines that print a step's table and true answers, as far as they have `known` words."""
    head = ["# " + text("lessons.code_states", language), *_scene_lines(scenes)]
    # A scheme's text form in a link is read as one name.
    if _new_words("\n".join(head), language, known, names=False):
        return
    lines = [line for line in _numbers(step, scenes) if not _new_words(line, language, known)]
    if lines:
        yield from head
        yield from lines


def _numbers(step: LessonStep, scenes: Mapping[str, Scene]) -> Iterator[str]:
    if step.table:
        for words, name in step.table.rows:
            row = f'{{**scenes, "{HERE}": scenes["{name}"]}}'
            yield f"print({words.say(scenes)!r})"
            for heading, formula in step.table.columns:
                yield f"print({'  ' + heading!r}, {_formula(formula.text)}.value({row}))"
    for formula_text in _formulas(step):
        yield f"print({_quoted(formula_text)}, {_formula(formula_text)}.value(scenes))"


def _scene_lines(scenes: Mapping[str, Scene]) -> list[str]:
    imports = [
        "from quantviz.teaching.lessons.formulas import Formula, Scene",
        "from quantviz.lab.state import LabState",
    ]
    parts = {
        name: {key: value for key, value in scene.state.written().items() if key in ("t", "s", "c")}
        for name, scene in scenes.items()
    }
    states = [f"    {_quoted(name)}: {link!r}," for name, link in parts.items()]
    return [
        *imports,
        "links = {",
        *states,
        "}",
        "scenes = {name: Scene(LabState.read(link)[0]) for name, link in links.items()}",
    ]


def _formulas(step: LessonStep) -> list[str]:
    formulas: list[str] = []
    for question in step.questions:
        if isinstance(question, DirectionQuestion):
            formulas += [question.before.text, question.after.text]
        elif isinstance(question, NumberQuestion):
            formulas.append(question.answer.text)
        elif isinstance(question, DragQuestion):
            formulas += [formula.text for formula in question.solution.values()]
        elif isinstance(question, OrderQuestion):
            formulas += [item.value.text for item in question.items]
    return list(dict.fromkeys(formulas))


def _formula(formula: str) -> str:
    return f"Formula.read({_quoted(formula)}, scenes)"


def _quoted(words: str) -> str:
    return '"' + words.replace("\\", "\\\\").replace('"', '\\"') + '"'
