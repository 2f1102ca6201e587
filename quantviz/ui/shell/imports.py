"""Heavy packages are imported when the server starts, before anybody has come, and left out of each garbage
collection. Frames are painted first.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import sys
import threading
import time
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any

import streamlit as st

from quantviz.ui.shell.startup import run_queue

#: Seconds after which the importing thread lets others run, in place of Python's 0.005.
_SHORT_TURN = 0.0002
#: Seconds that the imports wait for browsers, in all: a page may have no frame, or wait for an import itself.
_PATIENCE = 2.0
#: Seconds after a request in which the browser is likely to ask for the next file of a page.
_BETWEEN_FILES = 0.05


@dataclass(frozen=True)
class Ahead:
    """Names of the modules that are imported ahead; the app hands them over: they import this one."""

    #: For the frame of a page, at once.
    frame: tuple[str, ...] = ()
    #: For what follows a frame; they wait for frames that are being painted.
    after: tuple[str, ...] = ()
    #: For long work, in the process that does it.
    long_work: tuple[str, ...] = ()


_AHEAD: ContextVar[Ahead] = ContextVar("ahead", default=Ahead())  # noqa: B039 (it is frozen)


@contextlib.contextmanager
def importing(ahead: Ahead) -> Iterator[None]:
    """Have the block's pages, and the long work that they begin, import these modules ahead."""
    before = _AHEAD.set(ahead)
    try:
        yield
    finally:
        _AHEAD.reset(before)


def ahead() -> Ahead:
    """Return the modules that were handed over."""
    return _AHEAD.get()


class FramePriority(MetaPathFinder):
    """The work that browsers wait for: a page's files, then the run that paints its frame.

    Meanwhile the thread that imports waits before each module: Python computes in one thread at a time. As a
    finder of modules it holds those of that thread. With a wait before each package only, the first frame
    takes half as long again (tests/bench/README.md).
    """

    def __init__(self, patience: float = _PATIENCE) -> None:
        self._painting: set[int] = set()
        self._none = threading.Event()
        self._none.set()
        self._importing = 0
        self._patience = patience
        self._asked = -_BETWEEN_FILES

    def ask(self) -> None:
        """Note that a browser asks for a file."""
        self._asked = time.monotonic()

    def begin(self) -> None:
        """Note that this thread paints a frame."""
        self._painting.add(threading.get_ident())
        self._none.clear()

    def end(self) -> None:
        """Note that this thread's frame is painted, but for files that the browser still requests."""
        self._painting.discard(threading.get_ident())
        if not self._painting:
            self._none.set()

    def wait(self) -> None:
        """Wait until no browser waits for a frame or for files, as long as there is patience left."""
        began = time.monotonic()
        while (now := time.monotonic()) < began + self._patience:
            if not self._none.is_set():
                self._none.wait(began + self._patience - now)
            elif now < self._asked + _BETWEEN_FILES:
                time.sleep(self._asked + _BETWEEN_FILES - now)
            else:
                break
        self._patience -= now - began

    @contextlib.contextmanager
    def first(self) -> Iterator[None]:
        """Let the imports of this thread wait for frames."""
        self._importing = threading.get_ident()
        sys.meta_path.insert(0, self)
        try:
            yield
        finally:
            sys.meta_path.remove(self)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Return the spec of a module that the importing thread requests, to be run after frames."""
        if threading.get_ident() != self._importing:
            return None
        spec = PathFinder.find_spec(name, path, target)
        # Not here: a finder holds a lock that every other import wants.
        if spec and type(spec.loader) is SourceFileLoader:
            spec.loader = _AfterFrames(self, spec.loader.name, spec.loader.path)
        return spec


class _AfterFrames(SourceFileLoader):
    """Runs a module as usual, once no frame is being painted."""

    def __init__(self, frames: FramePriority, name: str, path: str) -> None:
        super().__init__(name, path)
        self._frames = frames

    def exec_module(self, module: ModuleType) -> None:
        self._frames.wait()
        super().exec_module(module)


@st.cache_resource(show_spinner=False)
def frames() -> FramePriority:
    """Return the frames of this process's runs."""
    return FramePriority()


def warm_up() -> None:
    """Wait until everything is imported, once the frame is painted."""
    frames().end()
    imported = _imported()
    if not imported.is_set():
        with run_queue().leave():
            import_all(ahead())
        imported.set()


@st.cache_resource(show_spinner=False)
def _imported() -> threading.Event:
    return threading.Event()


@st.cache_resource(show_spinner=False)
def import_all(_ahead: Ahead) -> bool:
    """Import pandas and the modules of a frame, then torch and those that follow a frame, then freeze them;
    later calls return at once, whatever their argument.

    Walking their objects would take the first run of the Lab half as long again, and later 0.2 s each time
    (tests/bench/README.md).
    """
    with _short_turns():
        # A package that a frame needs must not stop half imported: Streamlit imports pandas when a
        # page first needs it; plotly, in another session's thread, would meet it half imported too.
        import pandas  # noqa: F401

        for module in _ahead.frame:
            importlib.import_module(module)
        with frames().first():
            import torch

            for module in _ahead.after:
                importlib.import_module(module)

        # Each thread that runs a session would have helpers of its own, which wake and wait for each other:
        # large tensors have threads of ours.
        torch.set_num_threads(1)
        # Without a look for garbage first, which takes a tenth of the imports: they leave next to none.
        gc.freeze()
    return True


@contextlib.contextmanager
def _short_turns() -> Iterator[None]:
    """Switch threads often, since this process also serves the scripts with which the browser paints the
    frame. Garbage collection pauses meanwhile.
    """
    if "torch" in sys.modules:
        yield
        return
    usual = sys.getswitchinterval()
    sys.setswitchinterval(_SHORT_TURN)
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        sys.setswitchinterval(usual)
