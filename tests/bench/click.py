"""Work of one choice on a page: the calls of Python, the modules and the rooms that it passes, and its time.

    python -m tests.bench.click [--rounds 5] [--modules 0]

Each page is opened without a browser, and a control of it changed; counted is the script's thread until the
run has come to its end. A room is a folder of `quantviz`. The first time is that of a choice that nobody has
made before, later ones find its results. Time is the processor's, the least of the rounds, as a multiple of
the same on a bare page of forty controls. With `--modules`, so many modules with the most calls of the first.
"""

import argparse
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

from streamlit.testing.v1 import AppTest

from tests.helpers import ROOT
from tests.helpers.controls import choose
from tests.helpers.session import opened

BARE = """
import streamlit as st
for number in range(40):
    st.write(st.selectbox("bits", [3, 4, 5, 6], key=f"bits_{number}"))
"""
Change = Callable[[AppTest, Any], Any]


def _chosen(kind: str, key: str) -> Change:
    return lambda at, choice: getattr(at, kind)(key=key).set_value(choice).run()


def _drawn(field: str) -> Change:
    """Return the change of a control that the browser draws."""
    return lambda at, choice: choose(at, (field, choice))


#: By its name: the page, its address, how a control is changed, and the choices that are made in turn.
CLICKS: dict[str, tuple[str | None, dict[str, str], Change, tuple[Any, ...]]] = {
    "lab, bits": (None, {}, _chosen("segmented_control", "bits"), (3, 5)),
    "layers, scheme of the inputs": (
        "pages/explore/layers.py",
        {"l": "builtin(name=loud_input)"},
        _chosen("selectbox", "layers_inputs"),
        ("int8_per_row", "int8_per_column"),
    ),
    "formats, ties": ("pages/learn/formats.py", {}, _drawn("ties"), ("up", "down")),
    "golf, bits": ("pages/learn/golf.py", {}, _chosen("segmented_control", "bits"), (3, 5)),
}


def _in_script(
    work: Callable[..., object], given: tuple[object, ...], watch: Callable[[FrameType, str, object], None]
) -> None:
    """Do work on what is given, and have the calls of the script's thread watched."""

    def begin(frame: FrameType, event: str, argument: object) -> None:
        if threading.current_thread().name == "ScriptRunner.scriptThread":
            sys.setprofile(watch)
            watch(frame, event, argument)
        else:
            sys.setprofile(None)

    threading.setprofile(begin)
    try:
        work(*given)
    finally:
        threading.setprofile(None)


def calls_of(work: Callable[..., object], *given: object) -> Counter[str]:
    """Return how often functions of each module are called in the script's thread."""
    found: Counter[str] = Counter()

    def watch(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            found[frame.f_globals.get("__name__", "")] += 1

    _in_script(work, given, watch)
    return found


def seconds_of(work: Callable[..., object], *given: object) -> float:
    """Return the processor's time of the process."""
    began = time.process_time()
    work(*given)
    return time.process_time() - began


def told(calls: Counter[str]) -> str:
    """Return the cells of a table: all calls, ours, modules and rooms of ours."""
    ours = {name: count for name, count in calls.items() if name.partition(".")[0] == "quantviz"}
    rooms = {
        name.split(".")[1]
        for name in ours
        if "." in name and (ROOT / "quantviz" / name.split(".")[1]).is_dir()
    }
    return f"{calls.total():,} | {sum(ours.values()):,} | {len(ours)} | {len(rooms)}"


def bare_page() -> Callable[[object], object]:
    """Return the change of a bare page's control."""
    at = AppTest.from_string(BARE).run()
    return partial(_chosen("selectbox", "bits_7"), at)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--modules", type=int, default=0)
    arguments = parser.parse_args()
    rounds = arguments.rounds
    bare = bare_page()
    least = min(seconds_of(bare, choice) for choice in (4, 5) * rounds)
    print(f"bare page: {calls_of(bare, 6).total():,} calls, {1000 * least:.0f} ms\n")
    print("| click | first: calls | ours | modules | rooms | again: calls | ours | modules | rooms | time |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
    for name, (page, params, change, choices) in CLICKS.items():
        at = opened(page, lang="en", **params)
        counted = [calls_of(change, at, choice) for choice in choices * 2]
        took = min(seconds_of(change, at, choice) for choice in choices * rounds)
        print(f"| {name} | {told(counted[1])} | {told(counted[3])} | {took / least:.1f} × |", flush=True)
        for module, count in counted[1].most_common(arguments.modules):
            print(f"  {count:>7,} {module}")


if __name__ == "__main__":
    main()
