"""The list of lessons: a first hour, minutes, thumbnails of the lessons' own tensors; and what a learner sees
first of a ruler.
"""

import re

import pytest

from quantviz.figures.theme import THEMES
from quantviz.figures.thumbnail import Thumbnail, thumbnail_svg
from quantviz.lab.picture_parts import RULER_STAGES
from quantviz.sources import Builtin
from quantviz.teaching.lessons import lessons
from quantviz.teaching.lessons.formulas import HAND, HERE
from quantviz.teaching.lessons.plan import FIRST_HOUR, legend_home, minutes
from quantviz.teaching.lessons.thumbnails import STEPS, thumbnail_of, thumbnails
from quantviz.text import languages
from tests.helpers.lessons import read_plainly, words_of


@pytest.mark.parametrize("language", languages())
def test_the_first_hour_takes_an_hour(language):
    found = lessons(language)
    numbers = [list(found).index(name) for name in FIRST_HOUR]
    assert numbers == [1, 2, 5, 6, 10]
    assert 48 <= sum(minutes(found[name]) for name in ("fewer_bits", *FIRST_HOUR)) <= 62
    assert minutes(found["fewer_bits"]) == 3
    for name, number in zip(FIRST_HOUR, numbers, strict=True):
        said = " ".join(words.text for step in found[name].steps for words in words_of(step))
        named = {int(at) for pair in re.findall(r"lesson (\d+)|第 (\d+) 课", said) for at in pair if at}
        assert all(at == 0 or (at in numbers and at < number) for at in named), (name, named)


#: Lessons of fewer minutes than the others: the first, which makes curious.
SHORT = ("fewer_bits",)


@pytest.mark.parametrize("name", lessons())
def test_a_lesson_takes_about_ten_minutes(name):
    for language in languages():
        took = minutes(lessons(language)[name])
        assert took <= 13, f"{name} takes {took} minutes: 7 to 13 are allowed"
        assert (took < 7) == (name in SHORT), f"{name} takes {took} minutes: only those of SHORT take under 7"


@pytest.mark.parametrize("language", languages())
def test_lesson_0_shows_sizes_the_landscape_and_the_row_of_weights(language):
    sizes, picture, row = lessons(language)["fewer_bits"].steps
    scenes = sizes.scenes()
    told = sizes.words.say({**scenes, HAND: scenes[HERE]})
    assert all(f"{size} GB" in told for size in ("28", "14", "3.5"))
    assert picture.state.source == Builtin("landscape")
    assert row.state.source == Builtin("outlier_row")
    # It asks nothing before something was moved, and shows no comb, which nobody has explained.
    assert all(step.move == ("bits",) and step.ruler == "slider" for step in (sizes, picture, row))


def test_the_kept_thumbnails_are_those_of_the_lessons():
    """After a change: python -m quantviz.teaching.lessons.thumbnails."""
    assert list(thumbnails()) == list(lessons()), "run python -m quantviz.teaching.lessons.thumbnails"
    assert STEPS.keys() <= lessons().keys()
    for name, lesson in lessons().items():
        kept, own = thumbnails()[name], thumbnail_of(name, lesson)
        assert (len(kept.bars), len(kept.teeth), kept.grey) == (len(own.bars), len(own.teeth), own.grey)
        # On another type of CPU a shade may be the next one.
        assert all(abs(a - b) <= 1 for a, b in zip(numbers_of(kept), numbers_of(own), strict=True)), name
    assert len({thumbnail_svg(each, "light") for each in thumbnails().values()}) == len(thumbnails())


def numbers_of(thumbnail):
    cells = (cell for row in thumbnail.cells for cell in row)
    return [*cells, *thumbnail.bars, *thumbnail.teeth, *thumbnail.ends]


def test_a_thumbnail_has_the_colours_of_its_theme():
    cells = Thumbnail(((4, -4), (0, 2)), bars=(9, 0), teeth=(0, 440), ends=(0, 440))
    for theme in ("light", "dark"):
        svg = thumbnail_svg(cells, theme)
        own = THEMES[theme]
        assert all(colour in svg for colour in (own.values[0], own.values[-1], own.accent, own.muted))
    grey = thumbnail_svg(Thumbnail(((0, 7),), grey=True), "dark")
    assert "#000000" in grey
    assert "#ffffff" in grey


def test_teeth_values_and_colours_come_when_they_are_needed():
    steps = lessons()["range_to_grid"].steps
    assert [step.ruler for step in steps] == [
        "dots", "codes", "codes", "values", "values", "values", "all", "all"
    ]  # fmt: skip
    # Nothing that was seen goes away again, and all later lessons show all.
    places = [RULER_STAGES.index(step.ruler) for step in steps]
    assert places == sorted(places)
    later = [step for each in list(lessons().values())[2:] for step in each.steps]
    assert {step.ruler for step in later if not step.state.source.picture} == {"all"}
    # The legend stands where colours and bars are first seen: where errors are introduced.
    assert legend_home() == ("range_to_grid", 6)
    assert ("error", True) in steps[6].terms


@pytest.mark.parametrize("language", languages())
def test_the_landscape_returns_and_lesson_10_ends_where_lesson_0_began(language):
    found = lessons(language)
    first = [step.state.source for step in found["fewer_bits"].steps]
    for name in ("rounding_against_clipping", "bits_and_sqnr"):
        assert Builtin("landscape") in [step.state.source for step in found[name].steps]
    last = found["outliers"].steps[-1]
    assert last.state.source == first[-1] == Builtin("outlier_row")
    scenes = last.scenes()
    told = last.words.say({**scenes, HAND: scenes[HERE]})
    # 32 weights share a scale of 16 bits: 4.5 bits a weight.
    assert "3.94 GB" in told
    assert "28 GB" in told


@pytest.mark.parametrize("language", languages())
def test_remarks_on_notebooks_are_folded(language):
    word = {"en": "notebook", "zh": "笔记"}[language]
    folded = 0
    for name, lesson in lessons(language).items():
        for i, step in enumerate(lesson.steps, 1):
            for text in (step.title, *map(read_plainly, words_of(step))):
                assert word not in text, (name, i, text)
            folded += step.note is not None and word in step.note.text
    assert folded > 12
