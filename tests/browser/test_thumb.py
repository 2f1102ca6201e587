"""Every drag of every lesson, answered on a phone by a finger alone: near its goal first, then at it."""

import itertools

import pytest
from playwright.sync_api import expect

from quantviz.schemes.formats import FORMATS
from quantviz.teaching.lessons import lessons
from quantviz.teaching.lessons.dials import DIALS, DialState
from quantviz.teaching.lessons.finger import AXES, NEAR, axis_of
from quantviz.teaching.lessons.formulas import SOLUTION, quantities
from quantviz.teaching.lessons.model import HERE, DragQuestion
from quantviz.text import text
from tests.helpers.browser import TWO_FRAMES, box, fingers, wait_idle
from tests.helpers.lessons import judged_around

LESSONS = lessons()
DRAGS = {
    name: [
        (i, step, question)
        for i, step in enumerate(lesson.steps, 1)
        for question in step.questions
        if isinstance(question, DragQuestion)
    ]
    for name, lesson in LESSONS.items()
}
QUESTION = ".st-key-lesson_question"


def hands(step, question):
    """What a hand has to do: each handle with the value where its goal is, in the order of the moves."""
    scenes = step.scenes()
    start, goal = scenes[HERE], question.named_scenes(scenes)[SOLUTION]
    found = {}
    for name in question.solution:
        if name in ("hi", "lo"):
            found[name] = quantities()[f"range_{name}"](goal)
        elif name == "value":
            found[name] = goal.why.x
        elif name == "zero_point":
            # The tooth at 0 is dragged by as many steps as the zero point falls.
            found["zero"] = (start.why.zero_point - goal.why.zero_point) * start.why.scale
        elif name == "scale":
            found["tooth"] = goal.why.scale / start.why.scale
        elif name == "bits":
            found["bits"] = FORMATS[goal.state.scheme.format].bits
        else:
            found["group"] = goal.state.scheme.granularity.size
    return found


def dragged(page, handle, goal, per_pixel, more=0.0):
    """Drag a handle with a finger to where its goal is, and so many pixels farther."""
    if handle == "tooth":
        handle = page.locator("[data-handle^='tooth']").last.get_attribute("data-handle")
    grip = page.locator(f"[data-handle='{handle}']")
    grip.evaluate("each => each.scrollIntoView({ block: 'center' })")
    page.evaluate(TWO_FRAMES)
    place, now = box(grip), float(grip.get_attribute("aria-valuenow"))
    x, y = (place.left + place.right) / 2, (place.top + place.bottom) / 2
    if handle in ("bits", "group"):
        places = int(grip.get_attribute("aria-valuemax"))
        room = (place.right - place.left - 24) / places
        x = place.left + 12 + room * now
        ways = [(each - now) * room for each in range(places + 1)]
    elif handle in ("hi", "lo"):
        y = place.top + 12
        ways = [(goal - now) / per_pixel + more]
    elif handle == "zero" or handle.startswith("tooth"):
        y = place.bottom - 8
        ways = [(goal if handle == "zero" else now * (goal - 1)) / per_pixel + more]
    else:
        ways = [(goal - now) / per_pixel + more]
    act = fingers(page)
    act("start", x, y)
    for way in ways:
        for part in range(1, 9):
            act("move", x + way * part / 8, y)
            page.evaluate(TWO_FRAMES)
        if grip.get_attribute("aria-valuetext").split()[0] == str(goal):
            break
    act("end", x + way, y)
    wait_idle(page)


def nearly(step, question):
    """A handle, the pixels from its goal at which a hand is told which way to go, and that way, if any."""
    handles = ["lo", "hi"] if "lo" in question.solution else [*hands(step, question)]
    sides = itertools.product(handles, (-1, 1))
    for (handle, side), verdicts in zip(sides, judged_around(step, question), strict=False):
        for by, verdict in reversed(verdicts.items()):
            # A place is written to three digits: the farthest that is near may lie beyond.
            if not verdict.right and by < NEAR:
                return handle, side * by, verdict.near
    return None


def turned(page, state, goal):
    """Turn a dial to a goal with a finger: along its track, or by its buttons one after the other."""
    stops = state.series.stops
    if DIALS[state.dial].presses:
        for name in goal.at:
            page.locator(".qv-dial-buttons button").nth(int(name) - 1).tap()
            wait_idle(page)
        return
    track = page.locator(".qv-dial .qv-track")
    track.evaluate("each => each.scrollIntoView({ block: 'center' })")
    place, act = box(track), fingers(page)
    y = (place.top + place.bottom) / 2
    # The disc's middle is 10 px inside of the track's ends.
    room = (place.right - place.left - 20) / (len(stops) - 1)
    x, to = (place.left + 10 + room * stops.index(each.at) for each in (state, goal))
    act("start", x, y)
    for part in range(1, 9):
        act("move", x + (to - x) * part / 8, y)
        page.evaluate(TWO_FRAMES)
    act("end", to, y)
    wait_idle(page)


def commit(page):
    page.locator("[data-field=commit] button").tap()
    wait_idle(page)


def a_thumb_answers(page, url, name, i, step, question):
    page.goto(f"{url}/lessons?l={name}&p={i}&lang=en")
    page.locator(".st-key-lesson_step :is([data-handle], .qv-dial)").first.wait_for()
    wait_idle(page)
    start = step.scenes()[HERE].state
    if isinstance(start, DialState):
        turned(page, start, question.truth(step.scenes()))
        commit(page)
        expect(page.locator("[class*=st-key-told_]").first).to_contain_text("Right")
        return
    mark = page.locator("[data-handle=mark]")
    if mark.count():
        mark.tap()
        mark.wait_for(state="detached")
        wait_idle(page)
    lo, hi = axis_of(step.scenes()[HERE], step.move)
    per_pixel = (hi - lo) / AXES[390]
    wanted = hands(step, question)
    close = None if "scale" in question.solution else nearly(step, question)
    if close:
        missed, by, way = close
        for handle, goal in wanted.items():
            dragged(page, handle, goal, per_pixel, by if handle == missed else 0)
        commit(page)
        expect(page.locator(QUESTION)).to_contain_text(text(f"lessons.near.{way}", "en"))
    for handle, goal in wanted.items():
        dragged(page, handle, goal, per_pixel)
    commit(page)
    # Of several questions the answers come after the last.
    right = "Right" if len(step.questions) == 1 else "You said"
    expect(page.locator("[class*=st-key-told_]").first).to_contain_text(right)


@pytest.mark.nightly
@pytest.mark.parametrize("name", [name for name in DRAGS if DRAGS[name]])
def test_a_thumb_answers_every_drag(new_page, url, name):
    page = new_page(390, 844, touch=True)
    for i, step, question in DRAGS[name]:
        a_thumb_answers(page, url, name, i, step, question)
