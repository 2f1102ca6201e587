"""What is sent to the browser has the recorded hashes."""

import pytest

from tests.witnesses.record import FOLDER
from tests.witnesses.states import hash_line, links


def recorded():
    lines = (FOLDER / "states.txt").read_text(encoding="utf-8").splitlines()
    return dict(zip(lines[::2], (line[2:] for line in lines[1::2]), strict=True))


def test_every_state_is_recorded():
    assert list(recorded()) == links()


@pytest.mark.nightly
@pytest.mark.parametrize("link", links())
def test_what_is_sent_has_the_recorded_hashes(link):
    """`python -m tests.witnesses.states FILE`, before and after a change, shows what differs."""
    was, now = (set(line.split()) for line in (recorded()[link], hash_line(link)))
    assert sorted(now) == sorted(was)
