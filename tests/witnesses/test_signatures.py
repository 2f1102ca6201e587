"""The public names have the recorded signatures."""

from difflib import unified_diff

from tests.witnesses.record import FOLDER
from tests.witnesses.signatures import signature_lines


def test_every_public_name_has_the_recorded_signature():
    recorded = (FOLDER / "signatures.txt").read_text(encoding="utf-8").splitlines()
    apart = list(unified_diff(recorded, signature_lines(), "recorded", "now", lineterm="", n=0))
    assert not apart, "\n".join(apart[:20])
