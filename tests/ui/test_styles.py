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
    # These are there for a projected step, for a walk among a model's worst
    # tensors, which are large, and for a model that runs on the server: nobody drags over many cells.
    if sheet.name in ("map_walk.css", "one_screen.css", "models.css"):
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


#: What is chosen of several, in a sheet and in the scripts that draw buttons of their own.
CHOSEN = re.compile(
    r"(?:button[^{}]*(?:aria-checked|aria-pressed|data-selected)|:checked \+ span)[^{}]*\{([^{}]*)\}"
)
WIDTH_OF_A_DISC = re.compile(r"(?:slider-thumb|range-thumb|qv-thumb) \{([^{}]*)\}")
SCRIPTS = sorted((ROOT / "browser").rglob("*.js"))


def test_every_slider_has_the_same_disc_on_the_same_track():
    found = {}
    for path in (*SHEETS, *SCRIPTS):
        rules = path.read_text(encoding="utf-8").replace("${DISC}", "20").replace("${line}", "line")
        for declared in WIDTH_OF_A_DISC.findall(rules):
            if width := re.search(r"(?<!-)width: (\d+)px", declared):
                found.setdefault(path.name, set()).add(width[1])
    assert found == {"slider.js": {"20"}, "style.css": {"20"}}
    assert "DISC / 2" in (ROOT / "browser" / "ruler" / "sliders.js").read_text(encoding="utf-8")


def test_every_chosen_segment_has_the_same_tint():
    found = {}
    for path in (*SHEETS, *SCRIPTS):
        rules = re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        for declared in CHOSEN.findall(rules):
            for ground in re.findall(r"background:\s*([^;]+);", declared):
                found.setdefault(ground.strip(), set()).add(path.name)
    assert found.keys() == {"var(--qv-tint)"}
    assert {"style.css", "panel_switch.js", "rules.js"} <= found["var(--qv-tint)"]
