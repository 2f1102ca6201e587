"""Quick hands on pages whose server answers late: no choice is lost, and none that was undone comes back."""

import random

import pytest

from tests.helpers.browser import ANSWER_LATE, LATE, wait_idle

pytestmark = pytest.mark.nightly
TRIES = 25
#: Milliseconds between two presses at most.
GAP = 120
#: Of each page: its address, its rows and lists with the choices that are pressed, and whether each
#: choice there is a step that undo takes back.
PAGES = {
    "lab": ("lab", {"bits": ("3", "4", "5", "6"), "mode": ("symmetric", "asymmetric")}, True),
    "golf": (
        "golf?hole=bell",
        {"bits": ("3", "4", "5", "6"), "mode": ("symmetric", "asymmetric")},
        True,
    ),
    "bugs": ("bugs?bug=int8_difference_wraps", {"case": ("notebook", "zero_point_0", "random")}, True),
    "formats": ("formats", {"ties": ("even", "up", "down")}, True),
    "looks of formats": ("formats", {"view": ("linear", "symlog", "near")}, False),
    "tabs of the lab": (
        "lab",
        {"stage_tab": ("cell", "range", "blame"), "scenario": ("picture", "one_loud_column")},
        False,
    ),
    "layers": (
        "layers?l=builtin(name=loud_input)",
        {"layers_pair": ("w8a32", "w8a8_static", "w8a8_dynamic")},
        True,
    ),
    "looks of layers": (
        "layers?l=builtin(name=loud_input)",
        {"layers_values": ("x", "error", "codes"), "layers_tab_choice": ("cell", "channels")},
        False,
    ),
    "attention": (
        "attention",
        {"attention_tab": ("ways", "cell"), "shown": ("x", "error")},
        False,
    ),
    "adder": (
        "checkpoints?f=model:adder",
        {"models_shared": ("row", "tensor"), "models_order": ("drawn", "carries")},
        False,
    ),
}
#: What a hand does last.
LAST = ("nothing", "language", "reload", "back")
#: A row of choices and its buttons.
CHOSEN = """(keys) => keys.map((key) => [key, document.querySelector(
    `[data-field=${key}] :is(select, :checked)`)?.value])"""
PLACES = """(keys) => keys.flatMap((key) => [...document.querySelectorAll(
        `[data-field=${key}] :is(label:has(input), button)`)]
    .filter((each) => each.offsetParent)
    .map((each) => {
        const { left, top, width, height } = each.getBoundingClientRect();
        return [key, each.querySelector("input")?.value ?? key, [left + width / 2, top + height / 2]];
    }))"""
UNDOES = """document.querySelector("[data-field=undo] button:enabled") !== null"""


class Model:
    """What a page has to show: the choice in each row, and the ones before it that undo goes back to."""

    def __init__(self, now, undoes):
        self.now, self._before, self.undoes = now, [], undoes

    def choose(self, key, form):
        if self.now[key] != form:
            self._before.append(dict(self.now))
            self.now[key] = form

    def can_undo(self):
        return self.undoes and bool(self._before)

    def undo(self):
        self.now = self._before.pop()


def at_rest(page, rows, undoes):
    """Where the choices of a page are, and what it has to show."""
    for key in rows:
        page.wait_for_selector(f"[data-field={key}] :is(select, :checked)")
    wait_idle(page)
    places = {(key, form): middle for key, form, middle in page.evaluate(PLACES, [*rows, "undo"])}
    return places, Model(dict(page.evaluate(CHOSEN, [*rows])), undoes)


def end(page, last):
    match last:
        case "language":
            page.locator("[data-field=language_choice] label:has(input:not(:checked))").click()
        case "reload":
            page.reload(wait_until="commit")
        case "back":
            page.goto("about:blank")
            page.go_back(wait_until="commit")


@pytest.mark.parametrize("pointer", ["mouse", "finger"])
@pytest.mark.parametrize("name", PAGES)
def test_no_choice_of_quick_hands_is_lost(url, new_page, name, pointer):
    path, rows, undoes = PAGES[name]
    chance = random.Random(f"{name} {pointer}")
    page = new_page(1366, 768, touch=pointer == "finger")
    page.add_init_script(ANSWER_LATE)
    press = page.touchscreen.tap if pointer == "finger" else page.mouse.click
    page.goto(f"{url}/{path}{'&' if '?' in path else '?'}lang=en")
    places, model = at_rest(page, rows, undoes)
    wrong = []
    for _ in range(TRIES):
        done = []
        last = chance.choice(LAST)
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
                page.select_option(f"[data-field={pressed[0]}] select", pressed[1])
            done.append(pressed[1])
            page.wait_for_timeout(chance.uniform(0, GAP))
        end(page, last)
        wait_idle(page)
        page.wait_for_timeout(1500 * LATE)
        wanted = model
        places, shown = at_rest(page, rows, undoes)
        if shown.now != wanted.now:
            wrong.append((*done, last, dict(wanted.now), dict(shown.now)))  # later choices change them
        if last != "nothing" or shown.now != wanted.now:
            model = shown
    assert not wrong, f"{len(wrong)} of {TRIES}: {wrong}"
