"""Commands print what is recorded, and end with its status."""

from difflib import unified_diff

import pytest

from tests.witnesses.commands import command_lines
from tests.witnesses.record import FOLDER


@pytest.mark.nightly
def test_every_command_prints_what_is_recorded():
    recorded = (FOLDER / "commands.txt").read_text(encoding="utf-8").splitlines()
    apart = list(unified_diff(recorded, command_lines(), "recorded", "now", lineterm="", n=0))
    assert not apart, "\n".join(apart[:40])
