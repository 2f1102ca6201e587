"""Pages are turned where no click can be lost."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]

#: `turn_to` itself, and the front door, which passes an older address of the Lab on before it shows anything.
TURNS = {"quantviz/ui/shell/address.py", "quantviz/ui/home/page.py"}


def test_a_button_turns_to_a_page_by_its_callback():
    """`if st.button(…): st.switch_page(…)` loses the click where another message ends the run before it."""
    scripts = [ROOT / "app.py", *(ROOT / "pages").rglob("*.py"), *(ROOT / "quantviz/ui").rglob("*.py")]
    found = {
        str(script.relative_to(ROOT))
        for script in scripts
        if re.search(r"^[^#`]*\bst\.switch_page\(", script.read_text("utf-8"), re.MULTILINE)
    }
    assert found == TURNS
