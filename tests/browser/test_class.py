"""A class in a real browser: the lecturer's page with votes by plain HTTP, and the wall beside it."""

import csv
import json
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest
from playwright.sync_api import expect

from quantviz.lab.moves import moved
from quantviz.rooms.plan import Plan, Stop
from quantviz.teaching.lessons.drags import drag_answer
from quantviz.teaching.lessons.formulas import HERE
from quantviz.text import catalogue
from tests.helpers.browser import violations, wait_idle
from tests.helpers.sample import sample_of

DRAG = Stop("lesson", "rounding_against_clipping.least_error_int4")
PLAN = Plan((Stop("lesson", "per_channel.which_axis"), Stop("lesson", "range_to_grid.scale"), DRAG))
KEPT = "() => JSON.parse(localStorage.getItem('quantviz.room.v1'))"


def send(address, said):
    headers = {"content-type": "application/json"}
    with urlopen(Request(address, json.dumps(said).encode(), headers)) as answer:
        return answer.status


def vote(url, code, stop, answers, round=1):
    for number, answer in enumerate(answers):
        said = {
            "stop": stop,
            "round": round,
            "answer": answer,
            "sure": number % 3 > 0,
            "device": f"d{number}",
        }
        assert send(f"{url}/room/{code}/answer", said) == 204


def press(page, act):
    """Press one of the room's buttons once it is there."""
    page.locator(f".st-key-teacher_desk [data-act={act}]").click()


def counted(page, *numbers):
    """Wait until the desk has these numbers beside the answers."""
    expect(page.locator(".st-key-teacher_desk li b")).to_have_text([str(each) for each in numbers])


#: Whether a wall is one screen, whose picture and strip lie apart, with nothing beside it.
FITS = """() => {
    const main = document.querySelector("[data-testid=stMain]"), { innerHeight, innerWidth } = window;
    const found = [".st-key-lesson_picture", ".st-key-lesson_question"].map((part) =>
        document.querySelector(part));
    if (found.includes(null)) return false;
    const parts = found.map((part) => part.getBoundingClientRect());
    const corner = document.querySelector(".st-key-class_corner").getBoundingClientRect();
    const lines = [...document.querySelectorAll(".st-key-lesson_words h2 span")].flatMap((each) =>
        [...each.getClientRects()]);
    if (lines.some(({ right, top }) => right > corner.left && top < corner.bottom)) return false;
    const whole = [...document.querySelectorAll(".st-key-lesson_question, .st-key-lesson_picture")].every(
        ({ scrollHeight, clientHeight }) => scrollHeight <= clientHeight + 1);
    return main.scrollHeight <= innerHeight && document.body.scrollWidth <= innerWidth && whole &&
        parts[0].bottom <= parts[1].top + 1 && parts[1].bottom <= innerHeight;
}"""


@pytest.mark.parametrize(("language", "theme"), sample_of([("en", "light"), ("zh", "dark")], 1))
def test_a_class_votes_twice_and_the_wall_follows(new_page, url, language, theme):
    page = new_page(1366, 768, theme=theme)
    page.goto(f"{url}/teacher?{urlencode({'plan': str(PLAN), 'lang': language})}")
    page.locator(".st-key-teacher_open button:visible").click()
    page.locator("[data-act=close]").wait_for()
    code = page.evaluate(KEPT)["code"]
    vote(url, code, 0, [0, 1, 1])
    page.get_by_text(catalogue(language)["teacher.desk.here"].format(here=0, answered=3)).wait_for()
    counted(page)
    press(page, "close")
    page.locator("[data-act=again]").wait_for()
    counted(page, 1, 2, 0)
    press(page, "again")
    vote(url, code, 0, [1, 1, 1], round=2)
    press(page, "close")
    page.locator("[data-act=tell]").wait_for()
    counted(page, 0, 3, 0)
    assert violations(page) == []
    wall = page.context.new_page()
    wall.emulate_media(color_scheme=theme)
    wall.goto(f"{url}/join?c={code}&wall=1&lang={language}")
    expect(wall.locator(".qv-votes strong")).to_have_text(["0", "3", "0"])
    assert wall.locator(".qv-right").count() == 0
    press(page, "tell")
    wall.locator(".qv-right").wait_for()
    start = DRAG.step("en")[0].scenes()[HERE].state
    drags = [
        drag_answer(start, moved(start, {"kind": "range", "lo": -hi, "hi": hi})) for hi in (2.4, 2.5, 3.9)
    ]
    step, question = PLAN.stops[1].step("en")
    scales = [3.58, *question.mistaken(step.scenes())[:2]]
    for stop, (answers, ruler) in enumerate([(None, ""), (scales, "class_ruler"), (drags, "lesson_hand")]):
        if answers:
            press(page, "next")
            wall.wait_for_function(
                "(step) => location.search.includes(step)", arg=f"l={PLAN.stops[stop].at.partition('.')[0]}"
            )
            vote(url, code, stop, answers)
            press(page, "close")
            press(page, "tell")
            wall.locator(".qv-mistake").first.wait_for()
            wall.locator(f".st-key-{ruler} canvas").wait_for()
        for width, height in ((1280, 720), (3840, 2160)):
            wall.set_viewport_size({"width": width, "height": height})
            wait_idle(wall)
            wall.wait_for_function(FITS)
    told = page.locator(".st-key-teacher_desk li span")
    expect(told.first).to_have_text(catalogue(language)["lessons.made.hi"].format(value="2.4"))
    with page.expect_download() as download:
        press(page, "save")
    assert download.value.suggested_filename == f"{code}.csv"
    rows = list(csv.DictReader(download.value.path().read_text("utf-8").splitlines()))
    again = [
        (row["answer"], row["words"][0], row["sure"], row["guessed"]) for row in rows if row["round"] == "2"
    ]
    assert again == [("0", "A", "0", "0"), ("1", "B", "2", "1"), ("2", "C", "0", "0")]
    assert {row["stop"] for row in rows} == {"1", "2", "3"}
    press(page, "end")
    press(page, "end")
    page.locator(".st-key-teacher_open button:visible").wait_for()
    page.wait_for_function(f"({KEPT})() === null")


def test_acts_in_a_hurry_and_without_a_server_are_all_carried_out(new_page, url):
    """ "Next stop" right after "Show the answer" was refused as another device's; a press was lost."""
    page = new_page(1366, 768)
    page.goto(f"{url}/teacher?{urlencode({'plan': str(PLAN), 'lang': 'en'})}")
    page.locator(".st-key-teacher_open button:visible").click()
    press(page, "close")
    page.locator("[data-act=tell]").wait_for()
    both = "(acts) => ['tell', 'next'].forEach((act) => acts.querySelector(`[data-act=${act}]`).click())"
    page.locator(".st-key-teacher_desk .acts").evaluate(both)
    page.locator("[data-act=close]").wait_for()
    said = page.locator(".st-key-teacher_desk .said")
    stop = page.locator(".st-key-teacher_desk .stop")
    expect(stop).to_have_value("1")
    expect(said).to_have_text("")
    page.route("**/room/**", lambda route: route.abort())
    press(page, "close")
    expect(said).to_have_text(catalogue("en")["teacher.desk.act_waits"])
    page.unroute("**/room/**")
    page.locator("[data-act=tell]").wait_for()
    expect(said).to_have_text("")
    expect(stop).to_have_value("1")
    # A server whose answers take longer than the time between two looks left the desk as it was.
    page.evaluate(
        """() => {
            const { fetch } = window;
            const late = () => new Promise((done) => setTimeout(done, 1700));
            window.fetch = async (...asked) => (await late(), fetch(...asked));
        }"""
    )
    press(page, "tell")
    page.locator("[data-act=next].first").wait_for()
