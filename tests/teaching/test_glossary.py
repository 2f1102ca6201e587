"""No word is met in a lesson before the step that introduces it, and the front door needs none of them."""

import itertools
import re

import pytest

from quantviz.lab.picture_parts import PANEL_PARTS, RULER_STAGES, TILE_PARTS
from quantviz.teaching.lessons import drags, known_by, lessons, term_home
from quantviz.teaching.lessons.code import step_code
from quantviz.teaching.lessons.formulas import HERE, TERMS
from quantviz.text import catalogue, languages, templates
from tests.helpers.lessons import read_plainly, words_of
from tests.helpers.sample import sample_of

#: Words that must not stand in a step, as a regular expression: names of functions and formulas that no
#: lesson explains. The remarks on notebooks, which are folded, may have them.
NEVER = r"torch\.|√12|⌊|⌋|symlog|\bheld\b|notebook|[Cc]ourse 2|课程二|课程 2"


def met(term, language, text):
    return re.search(templates("glossary.met_by", language)[term], text, re.IGNORECASE)


def test_each_term_is_introduced_somewhere_and_known_by_its_words():
    assert all(term_home(term) for term in TERMS)
    assert all({*templates("glossary.met_by", language)} == {*TERMS} for language in languages())


@pytest.mark.parametrize("language", languages())
def test_a_terms_own_step_has_one_of_its_words(language):
    """A pattern that matches nothing would hold nothing."""
    for term in TERMS:
        name, i = term_home(term)
        step = lessons(language)[name].steps[i]
        words = [read_plainly(step.words), read_plainly(step.note) if step.note else ""]
        assert met(term, language, "\n".join(words)), term


def read_in(name, i, language):
    """All that a learner reads in a step, but for the folded remark and the lesson's name."""
    texts = catalogue(language)
    step = lessons(language)[name].steps[i]
    yield step.title
    yield from map(read_plainly, words_of(step))
    yield from (heading for heading, _ in step.table.columns) if step.table else ()
    plain = "dequantize" not in known_by(name, i)
    for part in step.show:
        if part in PANEL_PARTS:
            yield texts[f"panels.plain.{part}" if plain else f"panels.title.{TITLES[part]}"]
        elif part in TILE_PARTS:
            yield texts[f"{part}.name"]
            if "tile_lines" in step.show and part != "tiles.clipped":
                yield texts[f"{part}.line"]
    if "bits_plot" in step.show:
        yield texts["lessons.plot_sqnr"]


def around_of(name, i, language):
    """What is told of a step where it is touched, pointed at or heard: meanings of its terms, tiles and
    panels, and its ruler's names.
    """
    texts = catalogue(language)
    step = lessons(language)[name].steps[i]
    yield from (texts[f"glossary.{term}.meaning"] for term, _ in step.words.terms)
    for part in step.show & set(TILE_PARTS):
        yield texts[f"{part}.help"]
        if part == "tiles.mse":
            yield texts["tiles.mse.in_steps"]
    plain = "dequantize" not in known_by(name, i)
    for part in step.show & set(PANEL_PARTS):
        yield texts[f"panels.{'plain_field' if plain else 'field'}.{part}"]
        yield from (
            () if plain else (texts[f"causes.{cause}"] for cause in ("exact", "rounded", "zeroed", "clipped"))
        )
    if "number_line" in step.show and step.ruler != "slider":
        yield from (texts[f"ruler.sentence.{key}"] for key in SENTENCES[step.ruler])
    for handle in step.move:
        yield from (texts[f"ruler.{key}"] for key in HANDLES[handle])
    if "curve" in step.show:
        yield from (texts[f"ruler.{key}"] for key in ("rounding", "clipping", "curve", "minimum"))
    if any(step.opened_by_mark(question) for question in step.questions):
        yield from (texts[f"lessons.{key}"] for key in ("mark_axis", "mark_slider", "marked"))


#: What a screen reader says of a ruler, by how much of it is drawn, and of its handles.
SENTENCES = {
    "dots": ("dots",),
    "codes": ("codes",),
    "values": ("codes",),
    "all": ("elsewhere", "landed", "exact", "clipped"),
}
HANDLES = {
    "range": ("lo", "hi"),
    "zero": ("zero", "tooth_at"),
    "held_zero": ("zero", "tooth_at"),
    "tooth": ("tooth", "tooth_at"),
    "value": ("value",),
    "flip": (),
    "bits": ("bits",),
    "group": ("group",),
    "dial": (),
}


def test_the_walk_knows_every_handle_and_stage():
    assert {*HANDLES} == {*drags.HANDLES}
    assert ["slider", *SENTENCES] == list(RULER_STAGES)


TITLES = {"x": "x", "q": "q_plain", "x_hat": "x_hat", "error": "error_signed"}


@pytest.mark.parametrize("language", languages())
@pytest.mark.parametrize("name", list(lessons()))
def test_no_word_comes_before_its_time(name, language):
    early = []
    for i in range(len(lessons(language)[name].steps)):
        unknown = {*TERMS} - known_by(name, i)
        for text in (*read_in(name, i, language), *around_of(name, i, language)):
            text = re.sub(r"\{[^{}]*\}", "1", text)
            early += [(i + 1, term, text) for term in sorted(unknown) if met(term, language, text)]
            early += [(i + 1, found[0], text) for found in re.finditer(NEVER, text)]
    assert early == []


#: The state in a link, whose scheme is one name.
LINK = re.compile(r"'s': '[^']*'")


#: The first lesson with the name of a scheme's mode, and a step whose engine's name comes later.
FIRST_CODE, WITHOUT_CODE = "symmetric", [("per_channel", 5)]


@pytest.mark.parametrize(
    ("language", "name"), sample_of(list(itertools.product(languages(), lessons())), len(lessons()))
)
def test_no_word_comes_before_its_time_in_the_code_either(language, name):
    """It printed MSE and SQNR from lesson 0 on, which come in lessons 2 and 9."""
    early = []
    for i, step in enumerate(lessons(language)[name].steps):
        scenes = step.scenes()
        code = step_code(step, scenes, scenes[HERE].state, language, known_by(name, i))
        # Code that left out all would have no word too early.
        order = list(lessons())
        there = order.index(name) >= order.index(FIRST_CODE) and (name, i) not in WITHOUT_CODE
        assert bool(code) == there, i
        assert ("MSE " in code) == ("tiles.mse" in step.show and there)
        unknown = sorted({*TERMS} - known_by(name, i))
        # The code is English, its comments and its table's names are of the language.
        for read in (code, LINK.sub("", code).replace("_", " ")):
            early += [(i + 1, term) for term in unknown for each in ("en", language) if met(term, each, read)]
    assert early == []


#: Texts around a lesson's step that are there whatever it shows: its buttons and sentences, and what a
#: panel's colours reach to.
AROUND = ("lessons.", "panels.bar.", "panels.held", "formats.page.")


@pytest.mark.parametrize("language", languages())
def test_no_text_around_a_step_has_words_of_insiders(language):
    texts = {key: text for key, text in catalogue(language).items() if key.startswith(AROUND)}
    found = {key: text for key, text in texts.items() if re.search(NEVER, text)}
    # The name of the fold itself, and the button that names course 2 and says what it is.
    assert found.keys() <= {"lessons.note", "lessons.to_course_2"}
    assert catalogue(language)["lessons.courses.2.name"] in texts["lessons.to_course_2"]
    # The list of lessons comes before any of them.
    assert not met("tensor", language, texts["lessons.about"])


@pytest.mark.parametrize("language", languages())
def test_the_front_door_needs_no_word_of_the_course(language):
    """Its first sentence says what a model is; x̂ and tensors come later."""
    texts = {key: text for key, text in catalogue(language).items() if key.startswith("home.")}
    door = {key: re.sub(r"\{\w+\}", "1", text) for key, text in texts.items()}
    # The Lab's name, where somebody has been there.
    del door["home.continue.lab"]
    for term in ("tensor", "dequantize", "code", "zero_point", "sqnr", "mse"):
        assert not [key for key, text in door.items() if met(term, language, text)], term
    assert met("model", language, door["home.sentence"])
