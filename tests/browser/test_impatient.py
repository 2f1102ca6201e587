"""Quick hands on pages whose server answers late: no choice is lost, and none that was undone comes back."""

import random

import pytest

from tests.helpers.browser import wait_idle

pytestmark = pytest.mark.nightly
TRIES = 25
#: Seconds by which each of the server's answers comes late.
LATE = 0.35
ANSWER_LATE = f"""{{
    const usual = WebSocket.prototype.addEventListener;
    const late = (act) => act && ((event) => setTimeout(() => act(event), {1000 * LATE}));
    WebSocket.prototype.addEventListener = function (kind, act, ...rest) {{
        return usual.call(this, kind, kind === "message" ? late(act) : act, ...rest);
    }};
    const own = Object.getOwnPropertyDescriptor(WebSocket.prototype, "onmessage");
    const set = function (act) {{ own.set.call(this, late(act)); }};
    Object.defineProperty(WebSocket.prototype, "onmessage", {{ ...own, set }});
}}"""
#: Milliseconds between two presses at most.
GAP = 120
#: Of each page: its address, its rows of choices with words that are pressed, and whether each choice there
#: is a step that undo takes back.
PAGES = {
    "lab": ("lab", {"bits": ("3", "4", "5", "6"), "mode": ("symmetric", "asymmetric")}, True),
    "golf": (
        "golf?hole=bell",
        {"bits": ("3", "4", "5", "6"), "mode": ("symmetric", "asymmetric")},
        True,
    ),
    "bugs": (
        "bugs?bug=int8_difference_wraps",
        {"gallery_case_int8_difference_wraps": ("Notebook 3×3", "Zero point 0", "Random")},
        True,
    ),
    "formats": ("formats", {"ties": ("tie to even", "tie up", "tie down")}, True),
    "looks of formats": ("formats", {"view": ("linear", "log", "near x")}, False),
    "tabs of the lab": (
        "lab",
        {"stage_tab": ("Cell", "Range", "Blame"), "scenario": ("A picture", "One loud column")},
        False,
    ),
    "layers": (
        "layers?l=builtin(name=loud_input)",
        {"layers_values": ("error", "values", "rounded"), "layers_tab_choice": ("Cell", "Channels")},
        False,
    ),
}
#: A row of choices and its buttons.
CHOSEN = """(keys) => keys.map((key) => [key, document.querySelector(
    `[data-field=${key}] :is(label, option):is(:has(:checked), :checked)`)?.innerText.trim()])"""
PLACES = """(keys) => keys.flatMap((key) => [...document.querySelectorAll(
        `[data-field=${key}] :is(label:has(input), button)`)]
    .filter((each) => each.offsetParent)
    .map((each) => {
        const { left, top, width, height } = each.getBoundingClientRect();
        return [key, key === "undo" ? key : each.innerText.trim(), [left + width / 2, top + height / 2]];
    }))"""
UNDOES = """document.querySelector("[data-field=undo] button:enabled") !== null"""


class Model:
    """What a page has to show: the choice in each row, and the ones before it that undo goes back to."""

    def __init__(self, now, undoes):
        self.now, self._before, self.undoes = now, [], undoes

    def choose(self, key, words):
        if self.now[key] != words:
            self._before.append(dict(self.now))
            self.now[key] = words

    def can_undo(self):
        return self.undoes and bool(self._before)

    def undo(self):
        self.now = self._before.pop()


def opened(page, address, rows, undoes):
    """A page at rest: where its choices are, and what it has to show."""
    page.goto("about:blank")
    page.goto(address)
    for key in rows:
        page.wait_for_selector(f"[data-field={key}] :is(select, :checked)")
    wait_idle(page)
    places = {(key, words): middle for key, words, middle in page.evaluate(PLACES, [*rows, "undo"])}
    return places, Model(dict(page.evaluate(CHOSEN, [*rows])), undoes)


@pytest.mark.parametrize("pointer", ["mouse", "finger"])
@pytest.mark.parametrize("name", PAGES)
def test_no_choice_of_quick_hands_is_lost(url, new_page, name, pointer):
    path, rows, undoes = PAGES[name]
    address = f"{url}/{path}{'&' if '?' in path else '?'}lang=en"
    chance = random.Random(f"{name} {pointer}")
    page = new_page(1366, 768, touch=pointer == "finger")
    page.add_init_script(ANSWER_LATE)
    press = page.touchscreen.tap if pointer == "finger" else page.mouse.click
    places, model = opened(page, address, rows, undoes)
    wrong = []
    for _ in range(TRIES):
        done = []
        for _ in range(chance.choice((3, 4))):
            if model.can_undo() and chance.random() < 0.25 and page.evaluate(UNDOES):
                model.undo()
                pressed = "undo", "undo"
            else:
                pressed = (key := chance.choice([*rows])), chance.choice(rows[key])
                model.choose(*pressed)
            if pressed in places:
                press(*places[pressed])
            else:
                page.select_option(f"[data-field={pressed[0]}] select", label=pressed[1])
            done.append(pressed[1])
            page.wait_for_timeout(chance.uniform(0, GAP))
        wait_idle(page)
        page.wait_for_timeout(1500 * LATE)
        wait_idle(page)
        shown = dict(page.evaluate(CHOSEN, [*rows]))
        if shown != model.now:
            wrong.append((done, model.now, shown))
            places, model = opened(page, address, rows, undoes)
    assert not wrong, f"{len(wrong)} of {TRIES}: {wrong}"
