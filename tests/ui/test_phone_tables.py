"""Which columns a table shows, by the room that it has, and how it writes numbers."""

from pathlib import Path

from quantviz.ui.components import phone_tables
from quantviz.ui.components.phone_tables import (
    TableColumn,
    columns_shown,
    numbers_written,
    room_beside_ruler,
    table_height,
)

COLUMNS = (
    TableColumn("name", "ab", 120, width_on_phone=150, names_lines=True),
    TableColumn("bits", "ab", 80),
    TableColumn("mse", "ab", 80, on_phone=True),
    TableColumn("dB", "ab", 80),
    TableColumn("ms", "ab", 40),
)


def test_a_table_shows_the_columns_that_matter_and_the_first_others_that_fit():
    def shown(page_width, room):
        return " ".join(columns_shown(COLUMNS, page_width, room))

    assert shown(300, 300) == "name mse ms"
    assert shown(366, 366) == "name bits mse ms"
    assert shown(782, 782) == "name bits mse dB ms"
    assert shown(1120, 359) == "name bits mse ms"
    assert shown(1120, 360) == "name bits mse dB"
    assert shown(1120, 90) == "name mse"


def test_beside_the_ruler_a_table_has_less_than_half_of_a_page():
    assert room_beside_ruler(999) == 999
    assert 400 < room_beside_ruler(1000) < 420


def test_lines_are_high_enough_for_a_finger():
    assert table_height(3, 366) - table_height(2, 366) == 44
    assert table_height(3, 1120) - table_height(2, 1120) == 29


def test_every_table_s_numbers_are_written_by_one_formatter():
    """But for a typed tensor's, which can be written over."""
    ui = Path(phone_tables.__file__).parents[1]
    sources = {path.name for path in ui.rglob("*.py") if "NumberColumn(" in path.read_text(encoding="utf-8")}
    assert sources == {"phone_tables.py", "sidebar.py"}


def test_numbers_of_a_table_have_a_minus_and_stay_numbers():
    table = numbers_written({"gain": [-1.5, None, 2.0], "name": ["a-b", "", "c"]}, {"gain": "%+.1f"})
    assert table.data["gain"][0] == -1.5
    words = [line.split(" & ") for line in table.hide().to_latex().splitlines() if "&" in line]
    assert [[cell.strip(" \\") for cell in line] for line in words[1:]] == [
        ["−1.5", "a-b"],
        ["", ""],
        ["+2.0", "c"],
    ]
