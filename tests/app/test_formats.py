"""The formats page through AppTest: what is chosen on it, and what its link has then."""

import html
import re

from tests.helpers import session
from tests.helpers.controls import bars, choose, controls, tell
from tests.helpers.panels import decoded
from tests.helpers.session import address, bodies, healthy, spec

PAGE = "pages/learn/formats.py"


def opened(**params):
    return session.opened(PAGE, **params)


def body(at, name):
    return bodies(at, name)[0]


def table(at):
    """The rows of the code table: code to cells."""
    rows = re.findall(r'<tr data-code="(-?\d+)"([^>]*)>(.*?)</tr>', body(at, 'class="qv-codes"'))
    return {
        int(code): [*re.findall(r"<td>(.*?)</td>", cells), "selected" in marked]
        for code, marked, cells in rows
    }


def selected(at):
    return [code for code, cells in table(at).items() if cells[-1]]


def told_values(at):
    """The values that the marks of each format on the line stand for; arrays are sent packed."""
    traces = spec(at, "formats_line")["data"]
    return [decoded(trace["customdata"]).tolist() for trace in traces if trace.get("name") == "values"]


def plain(text):
    return html.unescape(re.sub("<[^>]+>", "", text))


def test_the_first_screen_is_a_tie_of_two_formats():
    at = opened(lang="en")
    assert address(at) == {"a": "float4_e2m1fn", "b": "int4", "x": "2.5", "lang": "en"}
    said = plain(body(at, 'class="qv-landings"'))
    assert said.count("exactly half-way between 2 and 3") == 2
    assert plain(body(at, 'class="qv-reading"')) == "+1 × 2^(2 − 1) × (1 + 0/2) = 2".replace(
        "^(", ""
    ).replace(")", "", 1)
    assert len(told_values(at)) == 2
    choose(at, ("ties", "up"))
    assert selected(healthy(at)) == [0b0101]
    assert address(at)["t"] == "up"


def test_two_bits_are_turned_over_at_once():
    """The browser sent both presses before the answer to the first: the second took the first one back."""
    at = opened(a="int4", b="none", x="0", lang="en")
    for bit in (0, 1):
        at.button(key=f"formats_bit_integer_{bit}").click()
    assert selected(healthy(at.run())) == [3]


def test_quick_choices_count_once_each_in_their_order():
    """The second of two quick presses was lost, and one that undo had taken back came back."""
    at = opened(a="nf4", b="int4", x="0.25", lang="en")
    choose(at, "swap", "swap", "swap", "undo", ("view", "near"), ("ties", "up"), "undo", "swap")
    said = address(healthy(at))
    assert (said["a"], said["b"], said["v"], said.get("t")) == ("int4", "nf4", "near", None)
    # A message that comes again, and one with what is none of the choices.
    bar, data = next((bar, data) for bar, data in bars(at).items() if data["controls"][0]["field"] == "first")
    tell(at, bar, *([number, "formats", "swap", ""] for number in range(1, data["taken"] + 1)))
    assert address(healthy(at)) == said
    tell(
        at, bar, [data["taken"] + 1, "formats", "nothing", "x"], [data["taken"] + 2, "formats", "ties", "odd"]
    )
    assert not at.exception
    assert address(at) == said


def test_the_view_the_order_and_what_is_brought_to_one_are_in_the_link():
    at = opened(a="float8_e4m3fn", b="float8_e5m2", x="300", lang="en")
    for view in ("symlog", "near", "linear"):
        choose(at, ("view", view))
        assert address(healthy(at)).get("v", "linear") == view
    choose(at, "swap", ("to_one", "1"))
    shown = {"a": "float8_e5m2", "b": "float8_e4m3fn", "x": "300.0", "n": "1", "lang": "en"}
    assert address(healthy(at)) | {"x": "300.0"} == shown
    assert address(opened(**address(at))) == address(at)
    choose(at, ("second", "none"))
    assert address(healthy(at))["b"] == "none"
    assert controls(at)["swap"]["disabled"]


def test_what_gives_no_number_is_said_beside_it_and_nothing_changes():
    at = opened(lang="en")
    choose(at, ("x", "two"))
    assert not at.exception
    assert "'two' is not a number" in at.error[0].value
    assert "Formats page" not in at.error[0].value
    assert controls(at)["x"]["wrong"]
    assert address(at)["x"] == "2.5"
    assert address(healthy(choose(at, ("x", "3"))))["x"] == "3"


def test_a_number_stays_as_it_was_typed_until_it_is_another():
    at = opened(lang="en")
    choose(at, ("x", "1/3"))
    assert controls(at)["x"]["value"] == "1/3"
    assert address(healthy(at))["x"] == "0.3333333333333333"
    at.button(key="formats_bit_sign_3").click().run()
    assert controls(at)["x"]["value"] == address(healthy(at))["x"]
