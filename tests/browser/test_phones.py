"""Phones of a class in Chromium: they join, answer, follow their lecturer, and are looked at by axe."""

import os
import signal
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from quantviz.browser import FOLDER, join_modules
from quantviz.rooms.plan import Plan, Stop
from quantviz.text import text
from tests.bench.servers import server_process
from tests.helpers.browser import NOTE_SHIFTS, Line, coming, shifts, violations, wait_idle, wait_until
from tests.helpers.room_leader import Leader

PLAN = Plan(
    (
        Stop("lesson", "fewer_bits.half_are_left"),
        Stop("choice", "", ask="Which one is larger?", options=("the left one", "the right one")),
        Stop("lesson", "symmetric.cost"),
    )
)
SAID = ".qv-room-said"
SHEET = ".qv-room-sheet[open]"
#: Of a page that is loaded: https://web.dev/articles/cls calls 0.1 good.
MOST_SHIFT = 0.03
#: Buttons, fields and choices of the room's own that a finger may miss.
SMALL = """() => [...document.querySelectorAll(".qv-room-bar button, .qv-room-form :is(button, label)")]
    .map((each) => [each.textContent, each.getBoundingClientRect()])
    .filter(([, box]) => box.height > 0 && (box.height < 44 || box.width < 44))
    .map(([name, { width, height }]) => [name, width, height])"""


def says(page, language, *keys):
    """Wait until the bar says these words."""
    wanted = [text(f"room.phone.{key}", language) for key in keys]
    page.wait_for_function(
        f"wanted => wanted.includes(document.querySelector('{SAID}')?.textContent)", arg=wanted
    )


def join(page, url, code):
    """Type the code on a phone, in small letters."""
    page.add_init_script(NOTE_SHIFTS)
    page.goto(f"{url}/join")
    assert violations(page) == []
    page.locator("#c").press_sequentially(code.lower())
    page.keyboard.press("Enter")


def joined(page, code, language):
    """The page of a phone once it is at the class's stop."""
    page.locator(".qv-room-at", has_text=f"{code} · 1 / 3").wait_for()
    page.locator("[data-handle=bits]").wait_for()
    wait_idle(page)
    assert f"room={code}" in page.url
    assert text("room.phone.look", language) not in page.locator("body").inner_text()


def committed(page, button="commit"):
    page.locator("[data-handle=bits]").press("ArrowLeft")
    page.keyboard.press("Tab")
    wait_idle(page)
    page.locator(f"[data-field={button}] button").tap()


def is_for_a_thumb(page):
    assert page.evaluate(SMALL) == []
    assert violations(page) == []


def test_two_phones_go_with_their_class(new_page, url):
    class_ = Leader(url, PLAN)
    one = new_page(390, 844, "light", "en-US", touch=True)
    other = new_page(390, 844, "dark", "zh-CN", touch=True)
    join(one, url, class_.code)
    join(other, url, class_.code)
    joined(one, class_.code, "en")
    joined(other, class_.code, "zh")
    moved, what = shifts(one)
    assert moved <= MOST_SHIFT, what

    committed(one)
    says(one, "en", "counted")
    committed(other, "commit_guess")
    says(other, "zh", "counted")
    drag = "s=int3%2Csymmetric%2Cper_tensor%2Cmin_max%2Ccourse"
    assert sorted(class_.votes("0.1").values()) == [(drag, False), (drag, True)]
    # As after a server that was killed before the browser was told to keep the answer.
    wait_idle(other)
    other.evaluate("localStorage.removeItem('quantviz.teaching.lessons.v1')")
    other.reload()
    said = text("lessons.you_said", "zh", answer="3 位", sure=text("lessons.was_guess", "zh"))
    other.locator(".st-key-lesson_question", has_text=said.replace("**", "")).wait_for()
    assert other.locator("[data-field=commit]").count() == 0
    # Nothing is told before the lecturer tells it.
    assert text("lessons.wrong", "en") not in one.locator(".st-key-lesson_question").inner_text()
    is_for_a_thumb(other)

    class_.act("again")
    says(one, "en", "again")
    one.locator("[data-field=commit] button").wait_for()
    expect(one.locator(".st-key-lesson_question")).to_contain_text("3 bits")
    committed(one)
    says(one, "en", "counted")
    assert list(class_.votes("0.2").values()) == [(drag.replace("int3", "int2"), True)]
    class_.act("close")
    says(other, "zh", "closed")
    other.locator("[data-field=commit] button").tap()
    class_.act("tell")
    one.locator(".st-key-lesson_question", has_text=text("lessons.wrong", "en")).wait_for()
    assert len(class_.votes("0.2")) == 1

    with coming(one, SHEET, PLAN.stops[1].ask):
        class_.act("next")
    for page in (one, other):
        page.locator(".qv-room-asked", has_text=PLAN.stops[1].ask).wait_for()
        page.locator(SHEET).wait_for(state="hidden")
    is_for_a_thumb(one)

    class_.act("look")
    other.locator(SHEET, has_text=text("room.phone.look", "zh")).wait_for()
    assert violations(other) == []
    class_.act("look")
    other.locator(SHEET).wait_for(state="hidden")


#: Streamlit's dialog on a lost connection made the whole page deaf, unseen.
DIALOG_HAS_COME = """window.qvDialog ??= new MutationObserver(() => {
    window.qvDeaf ||= document.querySelector(".stDialog") !== null;
}).observe(document, { childList: true, subtree: true }) ?? true;"""


def dragged_and_committed_without_a_server(page):
    page.wait_for_function("window.qvDeaf && !document.querySelector('.stDialog')")
    for bits in (3, 2):
        page.locator("[data-handle=bits]").press("ArrowLeft")
        page.locator(f"[data-handle=bits][aria-valuetext='{bits}']").wait_for()
    page.keyboard.press("Tab")
    page.locator("[data-field=commit] button").tap()
    says(page, "en", "unsent")


TWO_BITS = ("s=int2%2Csymmetric%2Cper_tensor%2Cmin_max%2Ccourse", True)


def test_an_answer_without_a_connection_is_kept_and_counted_when_it_is_back(new_page, url):
    """A drag that only the server can read was lost without a word; an older one was counted for it."""
    class_ = Leader(url, PLAN)
    page = new_page(390, 844, "light", "en-US", touch=True)
    line = Line(page)
    page.add_init_script(DIALOG_HAS_COME)
    join(page, url, class_.code)
    joined(page, class_.code, "en")
    line.lose()
    dragged_and_committed_without_a_server(page)
    assert not class_.votes("0.1")
    line.join()
    says(page, "en", "counted")
    assert list(class_.votes("0.1").values()) == [TWO_BITS]


@pytest.mark.nightly
def test_an_answer_is_counted_by_a_server_that_was_started_anew(new_page):
    page = new_page(390, 844, "light", "en-US", touch=True)
    page.add_init_script(DIALOG_HAS_COME)
    with server_process() as (address, process):
        class_ = Leader(address, PLAN)
        join(page, address, class_.code)
        joined(page, class_.code, "en")
        os.kill(process, signal.SIGKILL)
        dragged_and_committed_without_a_server(page)
    with server_process(port=urlsplit(address).port):
        says(page, "en", "counted")
        assert list(class_.votes("0.1").values()) == [TWO_BITS]
        page.locator(".st-key-lesson_question", has_text="2 bits").wait_for()


def test_tabs_of_a_phone_are_one_vote_and_one_that_slept_comes_back(new_page, url):
    class_ = Leader(url, PLAN)
    class_.act("next")
    page = new_page(390, 844, "light", "zh-CN", touch=True)
    page.add_init_script(NOTE_SHIFTS)
    page.goto(f"{url}/join?c={class_.code}")
    page.locator(".qv-room-form label").nth(1).wait_for()
    wait_idle(page)
    moved, what = shifts(page)
    assert moved <= MOST_SHIFT, what
    page.locator(".qv-room-form label").nth(1).tap()
    page.locator(".qv-room-form button").nth(1).tap()
    says(page, "zh", "counted")
    tab = page.context.new_page()
    tab.goto(page.url)
    expect(tab.locator(".qv-room-form label").nth(1).locator("input")).to_be_checked()
    says(tab, "zh", "counted")
    tab.locator(".qv-room-form label").nth(0).tap()
    tab.locator(".qv-room-form button").nth(0).tap()
    # The other tab shows it before the server has it.
    page.wait_for_function("document.querySelector('.qv-room-form input').checked")
    wait_until(page, lambda: list(class_.votes("1.1").values()) == [(0, True)])
    tab.close()

    # Its address is that of a stop before.
    here = page.url
    page.goto("about:blank")
    class_.act("next")
    class_.act("pace", stop=2)
    page.goto(here.replace("lab?", "bugs?"))
    page.locator("h1[data-step='symmetric/3']").wait_for()
    page.locator(".qv-room-bar button").nth(0).tap()
    page.locator(".qv-room-asked", has_text=PLAN.stops[1].ask).wait_for()
    assert "/lab?" in page.url
    page.goto(f"{url}/lessons?l=symmetric&p=4&room=ZZZZ&lang=zh")
    says(page, "zh", "ended")


@pytest.fixture(scope="module")
def script(blank_with):
    """Evaluate JavaScript in a page that has the parts of `room.js`."""
    names = ("isBehind", "statusOf", "typedNumber", "nextStop", "RoomLink")
    source = join_modules(FOLDER / "room" / "rules.js") + join_modules(FOLDER / "room" / "link.js")
    return blank_with(source + f"\nObject.assign(window, {{ {', '.join(names)} }});").evaluate


def test_a_page_follows_where_the_class_is_elsewhere(script):
    news = {"version": 5, "stop": 2, "round": 1, "phase": "ask", "pace": None}
    here = {"version": 4, "stop": 2, "round": 1, "phase": "ask", "stops": 4}
    cases = [
        (here, news, False),
        ({**here, "phase": "closed"}, news, False),
        ({**here, "stop": 1}, news, True),
        ({**here, "stop": 1}, {**news, "pace": 1}, False),
        ({**here, "round": 2}, news, True),
        (here, {**news, "phase": "told"}, True),
        ({**here, "stop": None}, news, True),
        ({**here, "stop": 1, "version": 6}, news, False),
    ]
    assert [script("([shown, news]) => isBehind(shown, news)", case[:2]) for case in cases] == [
        case[2] for case in cases
    ]
    paced = {**news, "pace": 0}
    turned = "([shown, news]) => [-1, 1].map((step) => nextStop(shown, news, step))"
    assert script(turned, [here, paced]) == [0, None]


def test_a_phone_says_what_became_of_its_answer_first(script):
    counted, sending = {"state": "counted"}, {"state": "sending"}
    cases = [
        ({"ended": True, "vote": counted}, "ended"),
        ({"vote": sending, "unsent": True, "lost": "away"}, "unsent"),
        ({"vote": sending, "unsent": False}, "sending"),
        ({"vote": counted, "lost": "away"}, "away"),
        ({"vote": counted, "phase": "ask"}, "counted"),
        ({"vote": counted, "phase": "closed"}, "counted_closed"),
        ({"vote": {"state": "closed"}, "phase": "closed"}, "closed"),
        ({"phase": "again"}, "again"),
        ({"phase": "told", "vote": counted}, "told"),
        ({"phase": "ask"}, ""),
    ]
    assert [script("statusOf", case) for case, _ in cases] == [said for _, said in cases]


def test_a_number_is_read_only_where_it_can_mean_one_thing(script):
    typed = {"3,5": 3.5, " −２.5 ": -2.5, "1,234": None, "0,125": 0.125, "1/4": None, "": None, "6 dB": None}
    assert {each: script("typedNumber", each) for each in typed} == typed


def test_an_answer_is_sent_until_the_server_has_said_what_became_of_it(script):
    became = script(
        """async () => {
            document.head.innerHTML = '<script type="module" src="http://app.test/static/js/app.js"></script>';
            const answers = [null, [503, {}], [204], [409, { error: "rooms.closed" }]];
            const sent = [], became = [];
            window.fetch = async (address, { body }) => {
                sent.push(body);
                const answer = answers.shift();
                if (answer === null) throw new TypeError("no network");
                const [status, said] = answer;
                return { status, ok: status === 204, json: async () => said };
            };
            const link = new RoomLink("K7QF", "en", () => {});
            const note = () => became.push([link.read().votes["0.1"].state, link.unsent ?? false]);
            link.vote("0.1", 2, true);
            for (let tries = 0; tries < 3; tries++, await link.post()) {
                while (link.sending) await new Promise((done) => setTimeout(done));
                note();
            }
            note();
            link.vote("0.1", 1, true);
            while (link.sending) await new Promise((done) => setTimeout(done));
            note();
            return [became, sent.map((each) => JSON.parse(each).answer)];
        }"""
    )
    assert became == [
        [["sending", True], ["sending", True], ["counted", False], ["counted", False], ["closed", False]],
        [2, 2, 2, 1],
    ]


def test_news_that_do_not_come_are_said_and_the_end_of_a_room_too(script):
    became = script(
        """async () => {
            document.head.innerHTML = '<script type="module" src="http://app.test/static/js/app.js"></script>';
            const answers = [null, [503, {}], [200, { version: 4 }], [304], [404, {}]];
            const became = [];
            window.fetch = async () => {
                const answer = answers.shift();
                if (!answer) throw new TypeError("no network");
                return { status: answer[0], ok: answer[0] === 200, json: async () => answer[1] };
            };
            const link = new RoomLink("K7QF", "en", () => {});
            while (answers.length) {
                link.store({ at: 0 });
                await link.look();
                became.push([link.lost, link.read().news?.version ?? 0, link.ended]);
            }
            return became;
        }"""
    )
    assert became == [
        ["away", 0, False],
        ["away", 0, False],
        ["", 4, False],
        ["", 4, False],
        ["", 4, True],
    ]
