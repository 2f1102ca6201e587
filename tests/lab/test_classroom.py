"""A classroom is written as a word of a link and read back; what is none is named."""

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantviz.errors import QuantVizError
from quantviz.lab.classroom import ANSWERS, GROUPS, HIDEABLE, LOCKABLE, Classroom
from quantviz.lab.picture_parts import TILE_PARTS
from quantviz.lab.scenarios import SCENARIOS
from quantviz.lab.share_links import LONGEST, app_address, only_here, short_link, write_address
from quantviz.lab.state import LabState, opening

rooms = st.builds(
    Classroom,
    st.frozensets(st.sampled_from(HIDEABLE)),
    st.frozensets(st.sampled_from(LOCKABLE)),
    st.sampled_from(ANSWERS),
    st.booleans(),
)
subsets = [
    frozenset(chosen)
    for count in range(len(LOCKABLE) + 1)
    for chosen in itertools.combinations(LOCKABLE, count)
]


@pytest.mark.parametrize("projector", [False, True])
@pytest.mark.parametrize("answers", ANSWERS)
@pytest.mark.parametrize("locked", subsets, ids=lambda locked: ".".join(sorted(locked)))
def test_every_lock_answer_and_projector_with_each_hidden_part(locked, answers, projector):
    for hidden in (frozenset(), *(frozenset({part}) for part in HIDEABLE), frozenset(HIDEABLE)):
        room = Classroom(hidden, locked, answers, projector)
        assert Classroom.parse(str(room)) == room


@given(rooms)
def test_what_is_written_is_read_back(room):
    form = str(room)
    assert Classroom.parse(form) == room
    assert set(form) <= set("abcdefghijklmnopqrstuvwxyz0123456789_-.")
    assert len(form) <= 240


@given(rooms)
def test_the_order_of_the_words_does_not_matter(room):
    words = str(room).split(".")
    if len(words) < 2:
        return
    count, *words, last = words
    assert count == last == str(len(words))
    assert Classroom.parse(".".join([count, *reversed(words), count])) == room
    # Links from before words were counted, and from when they were counted in front only.
    assert Classroom.parse(".".join(words)) == room
    assert Classroom.parse(".".join([count, *words])) == room


@pytest.mark.parametrize("group", GROUPS)
def test_a_whole_group_has_a_word_of_its_own(group):
    assert str(Classroom(frozenset(GROUPS[group]))) == f"no-{group}"


def test_a_part_of_a_group_is_named_by_itself():
    assert str(Classroom(frozenset(TILE_PARTS[1:]))).count("no-") == len(TILE_PARTS) - 1
    assert Classroom.parse("no-tiles.no-tiles-mse").hidden == frozenset(TILE_PARTS)


@pytest.mark.parametrize(
    "form",
    [
        "nonsense",
        "no-",
        "lock-below",
        "no-x",
        "no-q..no-error",
        ".",
        "PROJECTOR",
        "no-q projector",
        "no-tiles.mse",
        "锁",
    ],
)
def test_what_is_none_is_named_with_the_nearest_that_are_known(form):
    with pytest.raises(QuantVizError) as caught:
        Classroom.parse(form)
    assert caught.value.key == "link.classroom"
    nearest = re.search("Use one of (.*) \\(the nearest of", str(caught.value))[1].split(", ")
    assert len(nearest) == 3
    for word in nearest:
        Classroom.parse(word)


#: The more an answer setting tells, the later it comes.
TOLD = ("withheld", "after", "shown")
ASKED = [
    Classroom(answers="withheld"),
    Classroom(frozenset({"q", "x_hat"}), frozenset({"scheme"}), "withheld", projector=True),
    Classroom(frozenset({*TILE_PARTS, "below", "error"}), frozenset(LOCKABLE)),
]


def damages(form):
    """A link's word with one sign lost, doubled, replaced, added or turned round, and with an end cut off:
    one that was cut off exactly between two words opened what the lost ones had closed.
    """
    for i in range(len(form)):
        yield form[:i] + form[i + 1 :]
        yield form[:i] + form[i] * 2 + form[i + 1 :]
        yield form[:i] + form[i + 1 : i + 2] + form[i] + form[i + 2 :]
        for sign in ".-x0 %&\u200b":
            yield form[:i] + sign + form[i + 1 :]
            yield form[:i] + sign + form[i:]
        yield form[:i] + form[i].upper() + form[i + 1 :]
        yield form[:i]
        yield form[:i] + "…"
        # Without its beginning it was taken for a link from before words were counted.
        yield form[i:]
    yield from (form + end for end in (".", " ", "=", ")", ".nothing"))
    yield from (start + form for start in ("k=", "."))
    if "withheld" in form:
        yield from (form + ".shown", form + ".after", "shown." + form)


@pytest.mark.parametrize("room", ASKED, ids=str)
def test_a_damaged_setting_is_refused_or_opens_nothing_that_was_closed(room):
    refused = opened = 0
    for form in {*damages(str(room))} - {str(room)}:
        try:
            found = Classroom.parse_all([form])
        except QuantVizError:
            refused += 1
            continue
        opened += 1
        assert found.hidden >= room.hidden, form
        assert found.locked >= room.locked, form
        assert TOLD.index(found.answers) <= TOLD.index(room.answers), form
    assert refused > 20 * max(opened, 1)


def test_a_setting_without_its_beginning_is_refused_in_words_of_its_own():
    whole = str(Classroom(frozenset({"q"}), answers="withheld"))
    assert whole == "2.withheld.no-q.2"
    for start in (2, len("2.withheld.")):
        with pytest.raises(QuantVizError) as caught:
            Classroom.parse(whole[start:])
        assert caught.value.key == "link.classroom_start"
        assert repr(whole[start:].split(".")[0]) in str(caught.value)


@pytest.mark.parametrize("forms", [["withheld", "shown"], ["withheld", ""], ["", "withheld"], [""]])
def test_two_settings_or_an_empty_one_are_none(forms):
    with pytest.raises(QuantVizError):
        Classroom.parse_all(forms)
    assert Classroom.parse_all([]) == Classroom()
    assert Classroom.parse_all(["withheld", "withheld"]).answers == "withheld"


# ---- addresses ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SCENARIOS)
def test_an_example_is_a_short_link_that_opens_it(name):
    for state in (opening(name), opening(name).replace(error_range="fit", held=0.125)):
        assert LabState.read(short_link(state)) == (state, ())
        address = write_address(
            "http://192.168.100.200:8501/",
            "lab",
            {**short_link(state), "k": str(Classroom(frozenset(HIDEABLE), frozenset(LOCKABLE)))},
        )
        assert len(address) <= LONGEST


def test_only_what_a_query_allows_stands_as_it_is():
    address = write_address("http://host/", "lab", {"t": "uniform(lo=-1e+20,hi=2.0)", "s": "a b&c#d"})
    assert address == "http://host/lab?t=uniform(lo=-1e%2B20,hi=2.0)&s=a%20b%26c%23d"
    assert write_address("http://host/", "lab", {"t": "normal(seed=3)"}).endswith("normal(seed=3%29")
    assert write_address("http://host/app/", "lab", {}) == "http://host/app/lab"


def test_where_the_app_is():
    assert app_address("https://example.org/teacher?lang=en") == "https://example.org/"
    assert app_address("http://[fd00::2]:8501/teacher") == "http://[fd00::2]:8501/"


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST", "app.localhost", "127.0.0.1", "127.9.9.9", "[::1]", "0.0.0.0", "[::]"]
)
def test_what_is_only_here(host):
    assert only_here(f"http://{host}:8501/")


@pytest.mark.parametrize("host", ["192.168.1.20", "[fd00::2]", "quantviz.example", "localhost.example"])
def test_what_others_reach(host):
    assert not only_here(f"http://{host}:8501/")
