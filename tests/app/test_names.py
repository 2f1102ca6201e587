"""A page has one name: in the menu, as its title and in the browser's tab."""

import html
import re

import pytest

from quantviz.text import text
from tests.helpers.session import opened

#: Each page's file; the Lab is opened where there is none.
PAGES = {
    "lab": None,
    "checkpoints": "pages/explore/checkpoints.py",
    "layers": "pages/explore/layers.py",
    "teacher": "pages/learn/teacher.py",
}


@pytest.mark.parametrize(("name", "language"), list(zip(PAGES, ("zh", "en") * 2, strict=True)))
def test_a_page_has_one_name(name, language):
    at = opened(PAGES[name], lang=language)
    # The menu's entry has this name: `app.py` gives it to `st.Page`.
    menu = text(f"pages.{name}", language)
    tab = at.session_state["tab_title"].split(" · ")
    assert tab[-2:] == [menu, text("app.title", language)]
    shown = [each.proto.body for each in at.get("html") if "<h1" in each.proto.body]
    shown += [each.value for each in at.markdown if "<h1" in each.value]
    title = html.unescape(re.sub("<.*?>", "", shown[-1].partition("<h1")[2].partition(">")[2]))
    assert title.startswith(menu)
