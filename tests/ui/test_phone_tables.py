"""Which columns a table shows, by the room that it has, and how it writes numbers."""

from pathlib import Path

from quantviz.ui.components import phone_tables
from quantviz.ui.components.phone_tables import columns_shown, numbers_written, table_height

NAMES, ON_PHONE = ("name", "bits", "mse"), ("name", "mse")


def test_a_phone_and_a_tablet_beside_a_plot_show_the_columns_that_matter():
    assert columns_shown(NAMES, ON_PHONE, 366) == ["name", "mse"]
    assert columns_shown(NAMES, ON_PHONE, 782) == ["name", "bits", "mse"]
    assert columns_shown(NAMES, ON_PHONE, 782, beside_plot=True) == ["name", "mse"]
    assert columns_shown(NAMES, ON_PHONE, 1120, beside_plot=True) == ["name", "bits", "mse"]


def test_lines_are_high_enough_for_a_finger():
    assert table_height(3, 366) - table_height(2, 366) == 44
    assert table_height(3, 1120) - table_height(2, 1120) == 29


def test_every_table_s_numbers_are_written_by_one_formatter():
    """But for a typed tensor's, which can be written over."""
    ui = Path(phone_tables.__file__).parents[1]
    sources = {path.name for path in ui.rglob("*.py") if "NumberColumn(" in path.read_text(encoding="utf-8")}
    assert sources == {"phone_tables.py", "typed_input.py"}


def test_numbers_of_a_table_have_a_minus_and_stay_numbers():
    table = numbers_written({"gain": [-1.5, None, 2.0], "name": ["a-b", "", "c"]}, {"gain": "%+.1f"})
    assert table.data["gain"][0] == -1.5
    words = [line.split(" & ") for line in table.hide().to_latex().splitlines() if "&" in line]
    assert [[cell.strip(" \\") for cell in line] for line in words[1:]] == [
        ["−1.5", "a-b"],
        ["", ""],
        ["+2.0", "c"],
    ]
