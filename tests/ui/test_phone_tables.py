"""Which columns a table shows, by the room that it has."""

from quantviz.ui.components.phone_tables import columns_shown, table_height

NAMES, ON_PHONE = ("name", "bits", "mse"), ("name", "mse")


def test_a_phone_and_a_tablet_beside_a_plot_show_the_columns_that_matter():
    assert columns_shown(NAMES, ON_PHONE, 366) == ["name", "mse"]
    assert columns_shown(NAMES, ON_PHONE, 782) == ["name", "bits", "mse"]
    assert columns_shown(NAMES, ON_PHONE, 782, beside_plot=True) == ["name", "mse"]
    assert columns_shown(NAMES, ON_PHONE, 1120, beside_plot=True) == ["name", "bits", "mse"]


def test_lines_are_high_enough_for_a_finger():
    assert table_height(3, 366) - table_height(2, 366) == 44
    assert table_height(3, 1120) - table_height(2, 1120) == 29
