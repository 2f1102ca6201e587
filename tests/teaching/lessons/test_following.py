"""A step's sentences follow the hand, or say of when they are: what is told once moves no longer stands
beside a picture that tells otherwise.
"""

import contextlib
import re

import pytest

from quantviz.errors import QuantVizError
from quantviz.lab.moves import hand_choices
from quantviz.teaching.lessons import lessons
from quantviz.teaching.lessons.drags import moved_by
from quantviz.teaching.lessons.formulas import HERE, Formula, Scene
from quantviz.text import languages

#: A formula in words, without its digits.
HOLE = re.compile(r"\{([^{}|]+)(?:\|[^{}]*)?\}")
#: Where a sentence ends: what a colon or a semicolon joins is one.
END = {"en": r"(?<=[.!?])\s+|\n\s*\n|\n- ", "zh": r"(?<=[。！？])|\n\s*\n|\n- "}
#: What dates a sentence, and what makes the moved number its condition: “with {bits} bits”.
DATED = {
    "en": r"\b(?:at first|begins?)\b|\bfrom \S+ to \{",
    "zh": r"起初|先从|开始|从 ?(?:\{[^}]+\}|\S+) ?(?:变成|降到|到)",
}
CONDITION = {
    "en": r"(?:\b[Ww]ith(?: [a-z]+ of| z =)?|\b[Aa]t|\bgroups of|\bgroup of) \{",
    "zh": r"每组 \{|z = \{[^}]+\}(?: 时|：)|\{[^}]+\} (?:个一组|位时|是|处|时)|在 \{",
}


def messages(step, scene):
    """What a hand does with each handle of a step, far enough to change its numbers."""
    state, x, why = scene.state, scene.result.x, scene.why
    lo, hi = float(x.min()), float(x.max())
    for handle in step.move:
        if handle == "range":
            lower = -0.5 * abs(hi) if state.scheme.mode == "symmetric" else 0.7 * lo
            yield {"kind": "range", "lo": lower, "hi": 0.5 * abs(hi)}
        elif handle in ("zero", "held_zero"):
            yield {"kind": "given", "scale": why.scale, "zero_point": why.zero_point - 2}
        elif handle == "tooth":
            yield {"kind": "given", "scale": 2 * why.scale, "zero_point": why.zero_point}
        elif handle in ("value", "flip"):
            yield {"kind": "cell", "cell": list(state.cell), "value": 0.3 * hi}
        elif handle == "bits":
            found = [name for name in hand_choices(state).formats.values if name != state.scheme.format]
            yield {"kind": "format", "id": found[0]}
        elif handle == "group":
            sizes = [
                size for size in hand_choices(state).sizes.values if f"size={size})" not in str(state.scheme)
            ]
            yield {"kind": "group", "size": sizes[0]}


def stale(step, text, scenes, moved):
    """The formulas in a text that have another value after a hand's move, and are of the step's own state."""
    found = set()
    for match in HOLE.finditer(text):
        formula = Formula(match[1])
        before = formula.value(scenes)
        for scene in moved:
            if abs(formula.value({**scenes, HERE: scene}) - before) > 1e-9 * max(1, abs(before)):
                found.add(match[0])
    return found


def moved_scenes(step, scenes):
    for message in messages(step, scenes[HERE]):
        with contextlib.suppress(QuantVizError):
            yield Scene(moved_by(scenes[HERE].state, message, step.move))


def undated(words, language, found):
    """The sentences with a stale number that neither say of when they are nor on what they depend."""
    for sentence in re.split(END[language], words.text):
        numbers = sorted(number for number in found if number in sentence)
        if numbers and not re.search(f"{DATED[language]}|{CONDITION[language]}", sentence, re.IGNORECASE):
            yield sentence, numbers


@pytest.mark.parametrize("name", list(lessons()))
def test_a_sentence_follows_the_hand_or_is_dated(name):
    """“The largest, 728.6” stood there after it was dragged to 26."""
    wrong = []
    for i, step in enumerate(lessons()[name].steps):
        if not step.move or not HOLE.search(step.words.text):
            continue
        scenes = step.scenes()
        # Which formulas a step has is the same in each language.
        found = stale(step, step.words.text, scenes, list(moved_scenes(step, scenes)))
        for language in languages():
            own = lessons(language)[name].steps[i].words
            wrong += [(i + 1, *each) for each in undated(own, language, found)]
    assert wrong == []


def test_a_sentence_that_is_not_dated_is_found():
    step = lessons()["range_to_grid"].steps[0]
    scenes = step.scenes()
    moved = list(moved_scenes(step, scenes))
    told = type(step.words)("The largest is {x_max}. It goes along: {hand.x_max}. At first it was {x_max}.")
    found = stale(step, told.text, scenes, moved)
    assert found == {"{x_max}"}
    assert [sentence for sentence, _ in undated(told, "en", found)] == ["The largest is {x_max}."]
