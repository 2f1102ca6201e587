"""The page of profiles: its tables are those of their data."""

from tests.helpers import profile_tables


def test_tables_are_current():
    assert profile_tables.PAGE.read_text(encoding="utf-8") == profile_tables.page()
