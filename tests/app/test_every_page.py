"""What all pages have, without a browser: a name, a language, links and steps that lead where they say."""

from typing import NamedTuple

import pytest

from quantviz.text import text
from tests.helpers.controls import choose, controls
from tests.helpers.session import LAB, address, bodies, healthy, opened, told, went


class Page(NamedTuple):
    """A page's file, an address of it, a choice there, an address with faults, and what is said of each."""

    #: The Lab is opened where there is none.
    file: str | None
    link: dict[str, str]
    choice: tuple[str, str] | str
    faults: dict[str, str]
    said: tuple[str, ...]


INT4, INT9 = ("int4,symmetric,per_tensor,min_max,course", "int9,symmetric,per_tensor,min_max,course")
PAGES = {
    "lab": Page(None, {"t": "builtin(name=picture)", "s": INT4}, ("bits", "8"), {"s": INT9}, ("int9",)),
    "layers": Page(
        "pages/explore/layers.py",
        {"l": "builtin(name=loud_input)", "w": "int4_per_row", "a": "int8_per_row"},
        ("layers_inputs", "none"),
        {"l": "builtin(name=nothing)", "w": "int9"},
        ("the layer", "the scheme of the weights"),
    ),
    "attention": Page(
        "pages/explore/attention.py",
        {"f": "character_twin"},
        ("mask", "causal"),
        {"f": "nothing"},
        ("nothing",),
    ),
    "formats": Page(
        "pages/learn/formats.py",
        {"a": "nf4", "b": "fp4", "x": "0.25"},
        ("ties", "up"),
        {"a": "float9", "b": "nf5", "x": "<b>two</b>", "v": "polar", "t": "odd", "c": "zz"},
        ("float9", "nf5", "two", "polar", "odd", "zz"),
    ),
    "bugs": Page(
        "pages/learn/bugs.py",
        {"bug": "zero_point_added", "case": "zero_point_0"},
        ("bug", "row_of_zeros"),
        {"bug": "error_sign", "case": "<b>"},
        ("<b>",),
    ),
    "golf": Page("pages/learn/golf.py", {"hole": "heaps"}, "try", {"heaps": "int9"}, ("int9",)),
}


@pytest.mark.parametrize("name", PAGES)
def test_a_choice_is_a_step_that_is_undone_and_is_in_the_link(name):
    page = PAGES[name]
    at = opened(page.file, **page.link, lang="en")
    first = address(at)
    assert page.link.items() <= first.items()
    second = address(healthy(choose(at, page.choice)))
    assert second != first
    assert address(opened(page.file, **second)) == second
    for press, there in (("undo", first), ("redo", second)):
        assert address(healthy(choose(at, press))) == there
        assert controls(at)[press]["disabled"]
    # A message that was sent before the last answer came has the address of then: it takes nothing back.
    at.query_params.clear()
    at.query_params.update(first)
    assert address(healthy(at.run())) == second
    for there in (first, second):
        assert address(went(at, there)) == there


@pytest.mark.parametrize("name", PAGES)
def test_the_language_is_switched_in_place_and_the_state_kept_by_another_page(name):
    page, kept = PAGES[name], {**PAGES[name].link, "lang": "zh"}
    at = healthy(choose(opened(page.file, **page.link, lang="en"), ("language_choice", "zh")))
    assert kept.items() <= address(at).items()
    assert at.session_state["tab_title"].split(" · ")[-2:] == [text(f"pages.{name}", "zh"), "QuantViz"]
    healthy(at.switch_page("pages/learn/teacher.py").run())
    assert kept.items() <= address(healthy(at.switch_page(page.file or LAB).run())).items()


@pytest.mark.parametrize("name", PAGES)
def test_what_a_link_cannot_have_is_named_until_the_next_choice(name):
    page = PAGES[name]
    at = opened(page.file, **page.faults, lang="en")
    assert [each for each in page.said if each not in told(at, "warning")] == []
    assert "on our side" not in told(at, "warning")
    assert not healthy(choose(at, page.choice)).warning


CLASSES = [None, *(f"pages/learn/{each}.py" for each in ("lessons", "bugs", "teacher"))]


@pytest.mark.parametrize("page", CLASSES)
def test_a_bad_class_setting_is_said(page):
    assert [("damaged" in each.value) for each in opened(page, k="no-q.nonsense").warning] == [True]


@pytest.mark.parametrize(
    ("room", "asked"),
    [({}, {"t": "upload"}), ({"k": "lock-scheme"}, {"s": INT4.replace("int4", "int8")})],
    ids=["what cannot be had", "what a teacher has locked"],
)
def test_back_changes_nothing_of(room, asked):
    at = opened(lang="en", **room)
    shown = address(at)
    assert address(went(at, {**shown, **asked})) == shown


@pytest.mark.parametrize("name", ["checkpoints", "layers"])
def test_a_page_is_called_as_its_entry_in_the_menu(name):
    shown = bodies(opened(f"pages/explore/{name}.py", lang="zh"), "<h1")[-1].partition("<h1")[2]
    assert shown.partition(">")[2].startswith(text(f"pages.{name}", "zh"))
