"""The app as a new session sees it."""

import html
import io
import json
import re
import struct
from pathlib import Path
from typing import NamedTuple

import numpy as np
from streamlit.testing.v1 import AppTest

import quantviz as qv
from quantviz.lab.state import LabState, has_state
from tests.helpers.controls import choose, controls
from tests.helpers.panels import decoded

APP = Path(__file__).parents[2] / "app.py"
LAB = "pages/lab/playground.py"


def arrived(page=None, **params):
    """A new session at this address, whatever it says of it; `page` is another page's file than the first."""
    at = AppTest.from_file(str(APP), default_timeout=120)
    if page:
        at.switch_page(page)
    at.query_params.update(params)
    return at.run()


def opened(page=None, **params):
    """The app at this address, without a complaint; `page` is another page's file than the Lab's."""
    at = arrived(page, **params)
    if not page and not has_state(params) and "k" not in params:
        # Without anything of the Lab's it is the front door, from which pages are known by their files.
        at.switch_page(LAB).run()
    return healthy(at)


def act(at, *pressed, **chosen):
    """Set controls by their keys, each with an answer of the app, then press buttons by theirs: Streamlit's,
    or those that the browser draws from data, whose choices are the forms in links.
    """
    for key, value in chosen.items():
        if key in controls(at):
            choose(at, (key, value))
        else:
            control(at, key).set_value(value).run()
    for key in pressed:
        if key in controls(at):
            choose(at, key)
        else:
            control(at, key).click().run()
    assert not at.exception, at.exception
    return at


def unfolded(at, *folds):
    """The app with what is folded open for one run: AppTest knows no popovers."""
    for fold in folds or ("more",):
        at.session_state[fold] = True
    return healthy(at.run())


def npz(**arrays):
    """The content of a file of these arrays."""
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def control(at, key):
    return next(node for node in at._tree if getattr(node, "key", None) == key)


def spec(at, key):
    """A chart as the browser gets it."""
    return json.loads(chart(at, key).proto.spec)


def upload(at, name, content):
    """The Lab after a file, or an array as one, was brought to it."""
    if not isinstance(content, bytes):
        buffer = io.BytesIO()
        np.save(buffer, content)
        content = buffer.getvalue()
    if controls(at)["kind"]["value"] != "file":
        act(at, kind="file")
    return act(at, tensor_file=(name, content, "application/octet-stream"))


def keys_of(at, start=""):
    """The keys of all controls that begin so."""
    keys = [*(str(getattr(node, "key", "")) for node in at._tree), *controls(at)]
    return [key for key in keys if key.startswith(start)]


def bodies(at, part):
    """The HTML of the elements that have this in it."""
    return [element.proto.body for element in at.get("html") if part in element.proto.body]


def told(at, kind):
    """What is said in a caption, a warning or the like, without the marks of Markdown."""
    words = " ".join(each.value for each in at.get(kind))
    return words.replace("\\", "").replace("\u2060", "").replace("\u00a0", " ")


def bring(at, door, files):
    """Bring files, their contents by name, to one of the app's doors."""
    widget = next(each for each in at.file_uploader if str(each.key).startswith(f"{door}_"))
    widget.set_value([(name, content, "") for name, content in files.items()]).run()
    return at


def lab_state(at):
    """The state of the Lab in a session."""
    return healthy(at).session_state["lab_state"].now


def table(at, column):
    """The table on the page that has this column."""
    return next(each.value for each in healthy(at).dataframe if column in each.value)


def healthy(at):
    assert not at.exception, at.exception
    assert [error.value for error in at.error] == []
    return at


def address(at):
    return {name: value[0] if isinstance(value, list) else value for name, value in at.query_params.items()}


def went(at, shown):
    """The browser's own button went to an address, which its script marks."""
    at.query_params.clear()
    at.query_params.update({**shown, "went": "1"})
    return healthy(at.run())


def chart(at, key):
    return next(element for element in at.get("plotly_chart") if key in element.proto.id)


def packed(at, name):
    """What a component of this name is sent: its header, and its arrays by their names."""
    sent = next(each for each in at.get("bidi_component") if name in each.proto.id).proto.bytes
    (length,) = struct.unpack("<I", sent[:4])
    header = json.loads(sent[4 : 4 + length])
    arrays = header["arrays"].items()
    return header, {
        name: np.frombuffer(sent, kind, count, 4 + length + offset) for name, (kind, offset, count) in arrays
    }


def panels(at):
    """The four heatmaps' arrays as the browser gets them."""
    spec = json.loads(chart(at, "panels_chart").proto.spec)
    return [decoded(trace["z"]) for trace in spec["data"] if trace["type"] == "heatmap"]


def result(at):

    state, problems = LabState.read(address(at))
    assert problems == ()
    return qv.quantize(state.source.tensor(), state.scheme)


class Number(NamedTuple):
    """One of the Lab's five numbers as it is shown."""

    key: str
    label: str
    value: str
    #: Against the baseline.
    change: str
    line: str
    meaning: str

    @property
    def delta(self):
        return self.change or self.line


def numbers(at):
    """The numbers above the panels, from the left."""
    shown = [element.proto.body for element in at.get("html") if "qv-numbers" in element.proto.body]
    return [
        Number(**{name: html.unescape(part or "") for name, part in found.groupdict().items()})
        for found in _NUMBER.finditer(shown[0] if shown else "")
    ]


_NUMBER = re.compile(
    r'<div class="qv-number qv-number-(?P<key>\w+)">.*?data-short="[^"]*">(?P<label>[^<]*)</span>'
    r'.*?role="tooltip"[^>]*>(?P<meaning>[^<]*)<.*?data-qv-metric="(?P=key)">(?P<value>[^<]*)</b>'
    r"(?:<em[^>]*>(?P<change>[^<]*)</em>)?(?:<small[^>]*>(?P<line>[^<]*)</small>)?</div>"
)


def hint(at):
    """What the title line says to look for, after the word "Cell"."""
    return at.markdown[1].value.replace("\\", "")


def turned(at, tab):
    """The app with another tab of the stage open."""
    return healthy(act(at, stage_tab=tab))
