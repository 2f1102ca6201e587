"""The style sheets: none makes a change of the page cost more than it must."""

import re

import pytest

from tests.helpers import ROOT

#: What is in the page only while it is open, and only where names can be long.
RARE = ("[data-testid=stPopoverBody]:has(",)
SHEETS = sorted((ROOT / "quantviz" / "ui").rglob("*.css"))


@pytest.mark.parametrize("sheet", SHEETS, ids=lambda sheet: sheet.name)
def test_no_rule_goes_by_what_an_element_has(sheet):
    # With ":has" in the rules of a page a browser looks again at the whole page after each change: 230 ms of
    # a change of the bits went into it.
    if sheet.name == "long_names.css":
        return
    text = re.sub(r"/\*.*?\*/", "", sheet.read_text(encoding="utf-8"), flags=re.DOTALL)
    on_screen = text.partition("@media print")[0]
    for line in on_screen.splitlines():
        assert ":has(" not in line or line.strip().startswith(RARE), line
