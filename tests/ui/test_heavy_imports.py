"""The imports of a server that starts: they wait for frames, and not for ever."""

import importlib
import sys
import threading

import pytest

from quantviz.ui.shell.imports import Frames


@pytest.fixture
def module(tmp_path, monkeypatch):
    name = "quantviz_module_of_a_test"
    (tmp_path / f"{name}.py").write_text("", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield name
    sys.modules.pop(name, None)


def importing(frames, name):
    def run():
        with frames.first():
            importlib.import_module(name)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_modules_are_imported_once_the_frame_is_painted(module):
    frames = Frames()
    frames._patience = 60.0
    frames.begin()
    thread = importing(frames, module)
    thread.join(0.2)
    assert thread.is_alive()
    assert module not in sys.modules
    frames.end()
    thread.join()
    assert module in sys.modules
    assert frames not in sys.meta_path


def test_a_frame_that_is_never_painted_holds_up_nothing_for_long(module):
    frames = Frames()
    frames._patience = 0.1
    frames.begin()
    thread = importing(frames, module)
    thread.join(45)
    assert module in sys.modules


def test_who_does_not_import_for_all_waits_for_nobody(module):
    frames = Frames()
    frames._patience = 60.0
    frames.begin()
    with frames.first():
        frames._importing = 0
        importlib.import_module(module)
    assert module in sys.modules
