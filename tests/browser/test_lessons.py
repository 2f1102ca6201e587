"""The lessons in Chromium: a cell pointed at, an answer committed to, nothing told by hovering before."""

import itertools
from urllib.parse import urlencode

import pytest
from playwright.sync_api import expect

from quantviz.browser import read_script
from quantviz.teaching.lessons import all_steps, lessons
from quantviz.teaching.lessons.finger import AXES, axis_of
from quantviz.teaching.lessons.model import HERE
from tests.helpers.addresses import go
from tests.helpers.browser import (
    NOTE_SHIFTS,
    box,
    shifts,
    unmoved,
    violations,
    wait_idle,
)
from tests.helpers.picture import middle
from tests.helpers.sample import sample_of

PANELS = ".st-key-lesson_panels"
#: Each step of each lesson, as its address names it.
EVERY_STEP = [(name, i + 1) for name, i, _ in all_steps()]
#: Those with the most to show: of all pictures on a projector of 1280×720 these were by far the highest for
#: their room.
HIGHEST = [
    *(("outliers", step) for step in (2, 5, 6)),
    ("engines_disagree", 3),
    ("w8a32", 4),
    ("per_group", 1),
    ("kv_cache", 1),
    ("rounding_pays", 1),
]


def at(lesson, step, **params):
    """The address of a step."""
    return f"/lessons?{urlencode({'l': lesson, 'p': step, **params})}"


def opened(page, url, lesson, step, **params):
    page.goto(url + at(lesson, step, **params))
    drawn(page)
    return page


def gone(page, lesson, step, *, until, **params):
    """The open page at a step of a lesson, when what `until` selects is there."""
    go(page, at(lesson, step, **params))
    page.locator(f"h1[data-step='{lesson}/{step - 1}']").wait_for(state="attached")
    page.locator(until).first.wait_for()
    wait_idle(page)
    return page


def drawn(page):
    wait_idle(page)
    page.wait_for_function(f"document.querySelectorAll('{PANELS} .qv-overlay text').length >= 4")
    wait_idle(page)


def largest_value():
    """Row and column of the value that the first step of the lesson on groups asks for."""
    x = lessons()["per_group"].steps[0].scenes()[HERE].result.x
    return divmod(int(x.abs().argmax()), x.shape[1])


def answered_by_click(page, row, col):
    page.mouse.click(*middle(page, 0, row, col, "lesson_panels"))
    page.wait_for_function(ANSWER_IS, arg=f"{row},{col}")


#: Whether the cell that is chosen as the answer is this one.
ANSWER_IS = """place => [...document.querySelectorAll(".st-key-cell_answer input")]
    .map((input) => input.value).join() === place"""


@pytest.mark.nightly
def test_a_cell_is_answered_by_a_click(new_page, url):
    page, sent = new_page(), []
    page.on("websocket", lambda socket: socket.on("framesent", lambda frame: sent.append(frame)))
    opened(page, url, "per_group", 1, lang="en")
    dragged_by_keys(page, "group", "ArrowLeft", 1)
    what_is_left_says_nothing_at_the_address_gone_back_to(page, sent)
    answered_by_click(page, *largest_value())
    page.locator("[data-field=commit] button").click()
    page.wait_for_function("document.querySelector('.qv-rule')")
    drawn(page)
    page.mouse.move(*middle(page, 0, 1, 1, "lesson_panels"))
    page.wait_for_function("document.querySelector('.qv-card').innerText.includes('error')")


def what_is_left_says_nothing_at_the_address_gone_back_to(page, sent):
    """Streamlit ran the page left once more, at the other's address: who went back while the Lab was still
    being drawn stayed in it.
    """
    wait_idle(page)
    shown, before = page.url, len(sent)
    page.evaluate("history.replaceState(history.state, '', '/lab')")
    page.mouse.click(*middle(page, 0, 0, 0, "lesson_panels"))
    page.wait_for_timeout(300)
    assert len(sent) == before
    page.evaluate("address => history.replaceState(history.state, '', address)", shown)
    answered_by_click(page, 0, 1)
    assert len(sent) > before
    wait_idle(page)


def a_step_has_room(page):
    width, height = page.viewport_size["width"], page.viewport_size["height"]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    if width > 600:  # words, picture and the buttons to answer with are in sight together
        assert box(page, ".st-key-lesson_commit").bottom <= height
        matrix, ruler = box(page, PANELS), box(page, ".st-key-lesson_picture canvas")
        assert matrix.top < height / 2
        # The matrix stands over the middle of its ruler, and the two fill the screen.
        assert matrix.left + matrix.right == pytest.approx(ruler.left + ruler.right, abs=2)
        assert height * 2 / 3 < ruler.bottom <= height
        # The language stands above the menu, and nothing between this and the list of lessons.
        menu = box(page, "[data-testid=stSidebarNavItems]")
        assert box(page, ".st-key-language_choice").bottom <= menu.top + 1
        assert menu.bottom <= box(page, ".st-key-lesson_contents").top <= menu.bottom + 40


#: By how many pixels the page, or a part of a projected step, is higher or wider than its place.
CUT_OFF = """() => {
    const parts = [...document.querySelectorAll("[data-testid=stMain], .st-key-lesson_step > div > div")];
    return parts.map((part) =>
        Math.max(part.scrollHeight - part.clientHeight, part.scrollWidth - part.clientWidth));
}"""


def a_step_is_on_one_screen(page):
    # The ruler takes what the others leave a moment after it has come.
    page.wait_for_function(f"Math.max(...({CUT_OFF})()) <= 1")
    for button in page.locator(":is([data-field=commit], .st-key-lesson_next) button:visible").all():
        place = button.bounding_box()
        assert place["y"] + place["height"] <= 720


#: What the browser keeps of a learner.
KEPT = "JSON.parse(localStorage.getItem('quantviz.teaching.lessons.v1'))?.answers"


def commit_number(page, typed):
    """Slide the bits, which is what the question waits for, then type a number and commit to it."""
    field = page.get_by_label("Your number")
    if not field.is_visible():
        dragged_by_keys(page, "bits", "ArrowLeft", 1)
    field.fill(typed)
    field.press("Enter")
    page.locator("[data-field=commit] button").click()
    page.wait_for_function(
        "document.querySelector('.st-key-lesson_question')?.innerText.includes('You said')"
        " || document.querySelector('.qv-rule')"
    )


def kept(page):
    return page.evaluate(KEPT) or []


#: While a page loads: count the frames in which the question is shown as if it were still open. A page that
#: waits for its answers longer than three seconds shows itself, as on a busy machine.
NOTE_OPEN = """
    window.qvOpen = 0;
    const look = () => {
        const button = document.querySelector("[data-field=commit] button");
        const seen = button && getComputedStyle(button).visibility === "visible";
        if (seen && performance.now() < 3000) window.qvOpen += 1;
        requestAnimationFrame(look);
    };
    look();
"""


@pytest.mark.nightly
def test_a_reload_and_another_link_keep_what_was_answered_until_it_is_cleared(new_page, url):
    page = opened(new_page(), url, "range_to_grid", 3, lang="en", k="withheld")
    question = page.locator(".st-key-lesson_question")
    commit_number(page, "-128+184/3.5788")
    page.wait_for_function(f"{KEPT}?.length === 1")
    fields = ["attempt", "given", "lesson", "mark", "question", "step", "sure", "tried"]
    assert [sorted(answer) for answer in kept(page)] == [fields]
    page.add_init_script(NOTE_OPEN)
    page.reload()
    expect(question).to_contain_text("You said: −76.5")
    drawn(page)
    assert page.evaluate("window.qvOpen") == 0
    assert "step 3 of" in page.inner_text(".qv-place")
    expect(question).to_contain_text("Kept on this phone")
    # Nobody else's browser knows of it.
    other = opened(new_page(), url, "range_to_grid", 3, lang="en")
    assert other.locator(".st-key-lesson_move_first").is_visible()
    assert kept(other) == []
    two_pages_of_a_browser_lose_nothing_of_each_other(other, url)
    # The teacher opens the answers.
    opened(page, url, "range_to_grid", 3, lang="en")
    expect(question).to_contain_text("Not this time.")
    assert len(kept(page)) == 1
    page.get_by_role("button", name="My progress (1)").click()
    page.get_by_text("0 of 1 answers right").wait_for()
    answers_are_cleared_for_the_next_learner(page)


def two_pages_of_a_browser_lose_nothing_of_each_other(one, url):
    # Another question that is answered by a number.
    name, i = next(
        (name, i)
        for name, i, step in all_steps()
        if step.questions and step.questions[0].kind == "number" and step.move == ("bits",)
        if (name, i) != ("range_to_grid", 2)
    )
    two = one.context.new_page()
    two.goto(url + at(name, i + 1, lang="en"))
    two.locator("[data-handle=bits]").wait_for()
    dragged_by_keys(one, "bits", "ArrowLeft", 1)
    the_keyboard_stays_where_the_reader_is(one)
    one.wait_for_function(f"{KEPT}?.length === 1")
    commit_number(two, "3")
    two.wait_for_function(f"{KEPT}?.length === 2")
    two.get_by_role("button", name="My progress (2)").wait_for()


#: A browser that keeps nothing, one that is full, and what another program has left: what is said, and how
#: many answers are kept then.
BROKEN = [
    (
        "Object.defineProperty(window, 'localStorage', { get() { throw new Error('no'); } })",
        "does not let the page keep your answers",
        0,
    ),
    (
        "Storage.prototype.setItem = () => { throw new DOMException('full', 'QuotaExceededError'); }",
        "does not let the page keep your answers",
        0,
    ),
    *(
        (f"localStorage['quantviz.teaching.lessons.v1'] ??= {stored}", "These answers", 1)
        for stored in ("'{'", "'null'", "'x'.repeat(300_000)")
    ),
]


@pytest.mark.nightly
@pytest.mark.parametrize(("broken", "said", "count"), sample_of(BROKEN, 2))
def test_a_browser_that_cannot_keep_answers_says_so_and_the_lesson_works(new_page, url, broken, said, count):
    page = new_page()
    page.add_init_script(broken)
    opened(page, url, "range_to_grid", 3, lang="en")
    page.get_by_text(said).first.wait_for()
    drawn(page)  # the page that says so comes after the first, and takes the place of all its fields
    commit_number(page, "3.58")
    expect(page.locator(".st-key-lesson_question")).to_contain_text("Right")
    assert count == 0 or len(kept(page)) == count


def answers_are_cleared_for_the_next_learner(page):
    page.get_by_role("button", name="Clear").click()
    page.get_by_role("button", name="My progress (0)").wait_for()
    page.wait_for_function("localStorage.getItem('quantviz.teaching.lessons.v1') === null")
    page.reload()
    drawn(page)
    assert page.locator(".st-key-lesson_move_first").is_visible()


def the_keyboard_stays_where_the_reader_is(page):
    page.get_by_label("Your number").focus()
    page.keyboard.type("3.58")
    # Back, then on: the way on is the second after what was told.
    for keys, reached in (
        (("Tab",), "[data-field=commit]"),
        (("Enter",), ".st-key-told_answer_range_to_grid_2_0_0"),
        (("Tab", "Tab"), ".st-key-lesson_next"),
        (("Enter",), "h1[data-step='range_to_grid/3']"),
        (("Tab",), ".st-key-lesson_all"),
        (("Enter",), "h1.qv-title:not([data-step])"),
    ):
        for key in keys:
            page.keyboard.press(key)
        page.wait_for_function("selector => document.activeElement?.closest(selector)", arg=reached)
        wait_idle(page)


def all_of_a_card_opens_its_lesson(page):
    card = page.locator(".st-key-lesson_list_1 .qv-card-facts").nth(3)
    card.wait_for()
    wait_idle(page)
    place = box(card)
    page.touchscreen.tap(place.left + 20, place.top + 8)
    page.wait_for_function("document.querySelector('.qv-place')?.innerText.includes('Lesson 3')")
    page.locator(".st-key-lesson_step [data-handle]").first.wait_for()
    wait_idle(page)
    page.go_back()
    card.wait_for()
    wait_idle(page)


def the_list_closes_over_the_lesson_that_a_phone_chose(page):
    # The page of all lessons has no list beside its cards.
    gone(page, "range_to_grid", 1, until=".st-key-lesson_step [data-handle]", lang="en")
    page.locator("[data-testid=stExpandSidebarButton]").click()
    # On a slow line the script that closes it at first may come after the click: it leaves it open.
    page.evaluate(f"delete window.__quantvizSidebar; {read_script('sidebar')}")
    page.locator(".st-key-go_symmetric button").click()
    page.wait_for_function("document.querySelector('.qv-place')?.innerText.includes('Lesson 2')")
    page.wait_for_function(
        "(document.querySelector('[data-testid=stSidebar]')?.getBoundingClientRect().right ?? 0) <= 0"
    )


def dragged_by_keys(page, handle, key, times):
    """Move a handle of the step's ruler by keys, and wait for the page that follows."""
    page.locator(f"[data-handle='{handle}']").focus()
    for _ in range(times):
        page.keyboard.press(key)
    page.keyboard.press("Tab")
    wait_idle(page)


def a_zero_point_is_dragged_wrongly_then_right(page):
    question = page.locator(".st-key-lesson_question")
    for presses, told in ((3, "One more try."), (6, "Right: zero point −5")):
        dragged_by_keys(page, "zero", "ArrowRight", presses)
        page.locator("[data-field=commit] button").click()
        expect(question).to_contain_text(told)
    page.wait_for_function(f"{KEPT}?.[1]")
    assert [(each["question"], each["tried"]) for each in kept(page)] == [
        ("zero_point", 0),
        ("zero_point", 1),
    ]


def an_order_is_chosen_and_committed_by_one_press_each(page):
    """An open list lay over the button that commits, and what closed it swallowed the press."""
    gone(page, "asymmetric", 3, until="[data-handle=lo]")
    dragged_by_keys(page, "lo", "ArrowRight", 2)
    question = page.locator(".st-key-lesson_question")
    chosen = ["from 0 to 1", "from −1 to 1", "from −0.25 to 0.75"]
    for name in chosen:
        question.locator("label", has_text=name).click()
        wait_idle(page)
    # They are told in the order in which they were chosen.
    expect(question).to_contain_text(" < ".join(chosen))
    page.locator("[data-field=commit] button").click()
    page.get_by_text("One more try.").wait_for()


def a_mark_is_set_by_keys(page, then="lo"):
    """One that is only looked for is not set: the arrow keys move it, Enter sets it."""
    mark = page.locator("[data-handle=mark]")
    mark.focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Tab")
    wait_idle(page)
    assert mark.count() == 1
    mark.focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    page.locator(f"[data-handle={then}]").wait_for()
    wait_idle(page)


def a_pixel_is_worth_what_a_drag_is_judged_by(page, lesson, step):
    """A finger's width is in pixels of this axis, wherever the server judges it."""
    step = lessons()[lesson].steps[step - 1]
    mark = page.locator("[data-handle=mark]")
    ends = [float(mark.get_attribute(f"aria-value{end}")) for end in ("min", "max")]
    assert ends == pytest.approx(axis_of(step.scenes()[HERE], step.move), rel=1e-5)
    assert box(page, ".qv-ruler").width - 2 * 24 == pytest.approx(AXES[page.viewport_size["width"]], abs=2)


def a_range_that_was_dragged_too_far_can_be_dragged_back(page):
    """Its axis ended where the range did, and the place to go back to lay beyond it."""
    gone(page, "zero_point_out_of_range", 3, until="[data-handle=mark]")
    a_pixel_is_worth_what_a_drag_is_judged_by(page, "zero_point_out_of_range", 3)
    with unmoved(page, ".st-key-lesson_next"):
        a_mark_is_set_by_keys(page)
    lower = page.locator("[data-handle=lo]")
    places = [float(lower.get_attribute("aria-valuenow"))]
    for key in ("End", "Home"):
        dragged_by_keys(page, "lo", key, 1)
        places.append(float(lower.get_attribute("aria-valuenow")))
    assert places[1] > places[0] >= places[2]


def a_term_is_explained_where_it_is_touched(page):
    page.locator(".st-key-lesson_words .qv-term").first.tap()
    page.locator(".st-key-lesson_words .qv-meaning").first.wait_for(state="visible")
    meaning = box(page, ".st-key-lesson_words .qv-meaning")
    assert 0 <= meaning.left < meaning.right <= 390


@pytest.mark.parametrize(
    ("width", "height", "theme", "language"),
    sample_of([(1366, 625, "dark", "en"), (1920, 1000, "light", "zh")], 1),
)
def test_a_step_on_a_wide_screen(new_page, url, width, height, theme, language):
    page = opened(new_page(width, height, theme), url, "symmetric", 1, lang=language)
    a_step_has_room(page)


@pytest.mark.parametrize("theme", sample_of(["light", "dark"], 1))
def test_steps_that_are_dragged(new_page, url, theme):
    page = opened(new_page(1366, 625, theme), url, "range_to_grid", 4, lang="en")
    a_zero_point_is_dragged_wrongly_then_right(page)
    an_order_is_chosen_and_committed_by_one_press_each(page)
    a_range_that_was_dragged_too_far_can_be_dragged_back(page)
    # In a visit that has answered none of them.
    new = opened(new_page(1366, 625, theme), url, "symmetric", 1, lang="en")
    a_question_comes_where_it_has_its_room(new, 1)


def a_drag_is_asked_above_its_ruler_and_nothing_moves_when_it_ends(page):
    """The question lay below the ruler, and a release moved it, with the buttons, by a row."""
    parts = [f".st-key-lesson_{part}" for part in ("words", "question", "commit", "next", "hand")]
    assert box(page, parts[1]).top < box(page, parts[4]).top
    assert box(page, "[data-field=commit]").top < 844
    foot = box(page, ".qv-ruler").height
    with unmoved(page, *parts):
        dragged_by_keys(page, "hi", "ArrowLeft", 1)
    assert box(page, ".qv-ruler").height == pytest.approx(foot, abs=1)


def a_drag_is_predicted_by_one_tap_and_then_made_with_its_numbers(page):
    """Drags were blind to the end: “a quarter of what it is now” stood beside “?”."""
    gone(page, "rounding_against_clipping", 3, until="[data-handle=mark]", lang="zh")
    a_pixel_is_worth_what_a_drag_is_judged_by(page, "rounding_against_clipping", 3)
    assert page.locator("[data-handle]").count() == 1, "nothing can be moved before"
    assert violations(page) == []
    assert page.locator(".st-key-lesson_tiles b, [data-field=commit]").count() == 0
    mark = box(page, "[data-handle=mark]")
    # What was tapped stays where it is, and the curve has its room before.
    with unmoved(page, ".qv-ruler", by=1.5), unmoved(page, ".st-key-lesson_tiles", by=4):
        page.touchscreen.tap(mark.left + 0.7 * mark.width, (mark.top + mark.bottom) / 2)
        page.locator("[data-handle=hi]").wait_for()
        wait_idle(page)
    assert page.locator(".st-key-lesson_tiles b").first.inner_text() == "0.02586"
    assert box(page, ".qv-ruler").bottom <= 844
    dragged_by_keys(page, "hi", "ArrowLeft", 1)
    page.locator(".qv-ruler").evaluate("each => (each.was_there = true)")
    page.locator("[data-field=commit_guess] button").click()
    page.wait_for_function(f"{KEPT}?.[0]")
    (answer,) = kept(page)
    assert answer["sure"] is False
    assert 1 < answer["mark"] < 3
    page.locator("[class*=st-key-told_]").first.wait_for()
    wait_idle(page)
    assert page.locator(".qv-ruler").evaluate("each => each.was_there"), "it is not made anew"
    assert box(page, "[class*=st-key-told_]").bottom <= box(page, ".qv-ruler").top, (
        "it stands where it was asked"
    )


#: Steps that ask once something was moved: a choice, a number, an order, a direction, a cell.
ASKED_AFTER_A_MOVE = [
    ("w8a32", 1, "value", "en"),
    ("zero_point_out_of_range", 4, "lo", "en"),
    ("asymmetric", 3, "lo", "en"),
    ("asymmetric", 4, "zero", "zh"),
    ("per_group", 1, "group", "en"),
]


def a_question_comes_where_it_has_its_room(page, steps=2):
    """It came below the picture, and the page scrolled to it by up to 292 px, with *Next* off the screen; on
    a laptop it moved *Next* by up to 127.
    """
    for lesson, step, handle, language in sample_of(ASKED_AFTER_A_MOVE, steps):
        gone(page, lesson, step, until=f"[data-handle={handle}]", lang=language)
        asked = page.get_by_role("heading", level=2)
        assert asked.count() == 0, "nothing is asked before"
        with unmoved(page, ".st-key-lesson_next", ".qv-ruler", by=4):
            page.emulate_media(media="print")
            assert asked.count() > 0, "on paper nothing can be moved"
            page.emulate_media(media="screen")
            dragged_by_keys(page, handle, "ArrowLeft", 2)
            page.locator(".st-key-lesson_commit").wait_for()
            wait_idle(page)
        ruler = box(page, ".qv-ruler").top
        assert max(ruler, box(page, ".st-key-lesson_next").top) < page.viewport_size["height"]
        if page.viewport_size["width"] < 600:
            assert box(page, ".st-key-lesson_ask_0").top > ruler, "the ruler was moved before it"


@pytest.mark.nightly
def test_steps_on_a_phone(new_page, url):
    page = opened(new_page(390, 844, touch=True), url, "symmetric", 1, lang="zh")
    a_drag_is_asked_above_its_ruler_and_nothing_moves_when_it_ends(page)
    a_step_has_room(page)
    a_drag_is_predicted_by_one_tap_and_then_made_with_its_numbers(page)
    a_question_comes_where_it_has_its_room(page)
    gone(page, "range_to_grid", 3, until=".st-key-lesson_words .qv-term")
    drawn(page)
    a_term_is_explained_where_it_is_touched(page)


#: The most that a step may move by itself while it is loaded, also where its parts come one by one.
MOST_SHIFT = 0.02


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("width", "language"), sample_of(itertools.product([390, 820, 1366], ["en", "zh"]), 2)
)
def test_a_step_stands_still_while_it_comes_slowly(new_page, url, width, language):
    page = new_page(width, 844, touch=width < 900)
    page.add_init_script(NOTE_SHIFTS)
    slow = page.context.new_cdp_session(page)
    slow.send("Network.enable")
    speed = {"latency": 150, "downloadThroughput": 400_000, "uploadThroughput": 200_000}
    slow.send("Network.emulateNetworkConditions", {"offline": False, **speed})
    slow.send("Emulation.setCPUThrottlingRate", {"rate": 4})
    for lesson, step in sample_of(EVERY_STEP, 3):
        page.goto(url + at(lesson, step, lang=language))
        page.wait_for_selector("[data-qv-progress=ready]", state="attached")
        wait_idle(page)
        moved, what = shifts(page)
        assert moved <= MOST_SHIFT, (lesson, step, what)


@pytest.mark.nightly
def test_the_lessons_of_a_phone_in_their_list(new_page, url):
    page = new_page(390, 844, touch=True)
    page.goto(f"{url}/lessons?lang=en")
    all_of_a_card_opens_its_lesson(page)
    the_list_closes_over_the_lesson_that_a_phone_chose(page)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("room", "theme"), sample_of(itertools.product(["projector", "projector.shown"], ["light", "dark"]), 1)
)
def test_a_projector(new_page, url, room, theme):
    page = new_page(1280, 720, theme)
    opened(page, url, "range_to_grid", 7, lang="en", k="projector")
    a_step_is_on_one_screen(page)
    for lesson, step in [*sample_of(HIGHEST, 2), *sample_of(EVERY_STEP, 2), ("range_to_grid", 3)]:
        gone(page, lesson, step, until=".st-key-lesson_picture :is(.main-svg, canvas)", k=room)
        a_step_is_on_one_screen(page)
        assert violations(page) == [], (lesson, step)
