"""The style sheets: each rule is for something that a page shows, and none makes each change cost more."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "quantviz"
SHEETS = sorted((ROOT / "ui").rglob("*.css"))
CODE = "\n".join(
    path.read_text(encoding="utf-8")
    for path in (ROOT.parent / "app.py", *sorted(ROOT.rglob("*.py")), *sorted(ROOT.rglob("*.js")))
)
#: What the pages call their elements: whole names, and the beginnings and ends of those that have a value.
KEYS = set(re.findall(r"[\"']([\w-]+)[\"']", CODE))
CLASSES = set(re.findall(r"qv-[\w-]+", re.sub(r"\.qv-", "", CODE)))
BEGINNINGS = tuple(set(re.findall(r"f\"([\w-]{4,})\{", CODE)) | set(re.findall(r"(qv-\w+-)\$?\{", CODE)))
ENDINGS = tuple(set(re.findall(r"f\"\{[^}\"]+\}(_[\w-]{4,})\"", CODE)))
#: The parts of a code on the formats page, whose classes are made of their names.
ROLES = {f"qv-{role}" for role in ("sign", "exponent", "mantissa", "integer", "index")}


def strangers(rules):
    """The keys and classes of a style sheet that no page has."""
    rules = re.sub(r"/\*.*?\*/", "", rules, flags=re.DOTALL)
    named = set(re.findall(r"st-key-([\w-]+)", rules)) - KEYS
    named |= set(re.findall(r"\.(qv-[\w-]+)", rules)) - CLASSES - ROLES
    return {name for name in named if not name.startswith(BEGINNINGS) and not name.endswith(ENDINGS)}


@pytest.mark.parametrize("sheet", SHEETS, ids=lambda path: path.name)
def test_a_style_sheet_has_no_rule_for_what_no_page_shows(sheet):
    assert strangers(sheet.read_text(encoding="utf-8")) == set()


def test_a_rule_for_what_no_page_shows_is_found():
    assert strangers(".st-key-panels .qv-numbers { gap: 0; } .st-key-no_page, .qv-none { gap: 0; }") == {
        "no_page",
        "qv-none",
    }


#: What is in the page only while it is open.
RARE = ("[data-testid=stPopoverBody]:has(",)


@pytest.mark.parametrize("sheet", SHEETS, ids=lambda sheet: sheet.name)
def test_no_rule_goes_by_what_an_element_has(sheet):
    # With ":has" in the rules of a page a browser looks again at the whole page after each change: 230 ms of
    # a change of the bits went into it.
    # These are there for an open list of names, for a projected step, for a walk among a model's worst
    # tensors, which are large, and for a model that runs on the server: nobody drags over many cells.
    if sheet.name in ("long_names.css", "map_walk.css", "one_screen.css", "models.css"):
        return
    text = re.sub(r"/\*.*?\*/", "", sheet.read_text(encoding="utf-8"), flags=re.DOTALL)
    on_screen = text.partition("@media print")[0]
    for line in on_screen.splitlines():
        assert ":has(" not in line or line.strip().startswith(RARE), line


#: A part of a selector that any element fits which has some place among its neighbours.
ANYTHING_BESIDE = re.compile(r"[+~]\s*(\*|:(?!is))|>\s*\*?:nth-")


@pytest.mark.parametrize("sheet", SHEETS, ids=lambda sheet: sheet.name)
def test_no_rule_is_for_anything_beside_something(sheet):
    # Whatever comes into a page then has the browser look again at all that its neighbours hold: 8 ms of a
    # click's 20 in the Lab went into that.
    text = re.sub(r"/\*.*?\*/", "", sheet.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert [line for line in text.splitlines() if ANYTHING_BESIDE.search(line.partition("{")[0])] == []


#: Every size of type: one of six; that of the text around it; none, where a sign takes the words' place; and
#: what fits into a cell.
SIZES = {f"var(--qv-{size})" for size in (12, 14, 16, 18, 20, 28)} | {"inherit", "0", "var(--type)"}
#: Letters of the whole page, of which all lengths are shares.
OF_THE_PAGE = re.compile(r"^\s*html \{ font-size: [^}]*\}$", re.MULTILINE)


def sizes_of_type(rules):
    """The sizes of type of a sheet's or a script's rules, those on paper left out."""
    rules = OF_THE_PAGE.sub("", re.sub(r"/\*.*?\*/", "", rules, flags=re.DOTALL).partition("@media print")[0])
    found = re.findall(r"font-size:\s*([^;}\"`]+)", rules)
    # On a canvas, in pixels; 100 is for the measure of a picture's digits.
    found += (
        f"var(--qv-{size})"
        for size in re.findall(r"\bfont(?::| =) *[\"`]?(?:\d00 )?([\d.]+)px[ /]", rules)
        if size != "100"
    )
    return {size.replace("!important", "").strip() for size in found if "${" not in size}


@pytest.mark.parametrize(
    "sheet",
    [
        *(*SHEETS, *sorted((ROOT / "browser").rglob("*.js"))),
        *(path for folder in ("ui", "export") for path in sorted((ROOT / folder).rglob("*.py"))),
    ],
    ids=lambda path: path.name,
)
def test_type_has_one_of_six_sizes(sheet):
    assert sizes_of_type(sheet.read_text(encoding="utf-8")) <= SIZES


def test_a_seventh_size_of_type_is_found():
    rules = "p { font-size: 0.9rem !important; } b { font-size: var(--qv-12) } i { font: 600 13px serif; }"
    assert sizes_of_type(rules) == {"0.9rem", "var(--qv-12)", "var(--qv-13)"}


#: Heights of buttons: that of a row of controls, of a finger, and as much as the words take.
HEIGHTS = {"var(--qv-button)", "44px", "46px", "0", "100%"}
#: Buttons that are no more than a word or a sign in a line of text.
SMALL = (
    "stMultiSelect",
    "st-key-map_walk",
    "st-key-lesson_contents",
    "st-key-lesson_list_",
    "stSidebarHeader",
)


def heights_of_buttons(rules):
    """The heights that a sheet gives to buttons, by the selector."""
    rules = re.sub(r"/\*.*?\*/", "", rules, flags=re.DOTALL).partition("@media print")[0]
    found = {}
    for selector, declared in re.findall(r"([^{}]+)\{([^{}]*)\}", rules):
        is_button = re.search(r"(button(:is\([^)]*\))?|button\))\s*$", selector.strip())
        if is_button and not any(name in selector for name in SMALL):
            heights = re.findall(r"(?<![-\w])(?:min-)?height:\s*([^;}]+)", declared)
            found[selector.strip()] = {height.replace("!important", "").strip() for height in heights}
    return found


@pytest.mark.parametrize("sheet", SHEETS, ids=lambda path: path.name)
def test_buttons_have_one_of_two_heights(sheet):
    for selector, heights in heights_of_buttons(sheet.read_text(encoding="utf-8")).items():
        assert heights <= HEIGHTS, selector


def test_a_third_height_of_a_button_is_found():
    assert heights_of_buttons(".a button { min-height: 2.1rem; height: 44px; }") == {
        ".a button": {"2.1rem", "44px"}
    }


#: What is chosen of several, in a sheet and in the scripts that draw buttons of their own.
CHOSEN = re.compile(r"button[^{}]*(?:aria-checked|aria-pressed|data-selected)[^{}]*\{([^{}]*)\}")
WIDTH_OF_A_DISC = re.compile(r"(?:slider-thumb|range-thumb|qv-thumb) \{([^{}]*)\}")
SCRIPTS = sorted((ROOT / "browser").rglob("*.js"))


def test_every_slider_has_the_same_disc_on_the_same_track():
    found = {}
    for path in (*SHEETS, *SCRIPTS):
        rules = path.read_text(encoding="utf-8").replace("${DISC}", "20").replace("${line}", "line")
        for declared in WIDTH_OF_A_DISC.findall(rules):
            if width := re.search(r"(?<!-)width: (\d+)px", declared):
                found.setdefault(path.name, set()).add(width[1])
    assert found == {"slider.js": {"20"}, "lab.css": {"20"}}
    assert "DISC / 2" in (ROOT / "browser" / "ruler" / "sliders.js").read_text(encoding="utf-8")


def test_every_chosen_segment_has_the_same_tint():
    found = {}
    for path in (*SHEETS, *SCRIPTS):
        rules = re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        for declared in CHOSEN.findall(rules):
            for ground in re.findall(r"background:\s*([^;]+);", declared):
                found.setdefault(ground.strip(), set()).add(path.name)
    assert found.keys() == {"var(--qv-tint)"}
    assert {"style.css", "lab.css", "panel_switch.js", "rules.js"} <= found["var(--qv-tint)"]
