"""Every link is read and written as the record has it."""

from tests.witnesses.pages import PAGES
from tests.witnesses.record import answer_line, recorded

#: Differences that are named.
FIRST = 10


def test_every_link_has_the_recorded_answer():
    links = recorded()
    assert {link.partition("?")[0] for link in links} == set(PAGES)
    assert len(links) > 500
    answers = ((link, answer, answer_line(link)) for link, answer in links.items())
    apart = [f"{link}\n  recorded: {was}\n  now:      {now}" for link, was, now in answers if was != now]
    assert not apart, "\n".join((f"{len(apart)} links differ:", *apart[:FIRST]))
