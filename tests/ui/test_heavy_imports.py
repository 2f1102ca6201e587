"""The imports of a server that starts: they wait for frames, and not for ever."""

import importlib
import sys
import threading

import pytest

from quantviz.ui.shell.imports import FramePriority


@pytest.fixture
def module(tmp_path, monkeypatch):
    name = "quantviz_module_of_a_test"
    (tmp_path / f"{name}.py").write_text("RAN = True", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield name
    sys.modules.pop(name, None)


def ran(name):
    return hasattr(sys.modules.get(name), "RAN")


def importing(frames, name):
    def run():
        with frames.first():
            importlib.import_module(name)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_modules_are_imported_once_the_frame_is_painted(module):
    frames = FramePriority(patience=60.0)
    frames.begin()
    thread = importing(frames, module)
    thread.join(0.2)
    assert thread.is_alive()
    assert not ran(module)
    frames.end()
    thread.join()
    assert ran(module)
    assert frames not in sys.meta_path


def test_a_frame_that_is_never_painted_holds_up_nothing_for_long(module):
    frames = FramePriority(patience=0.1)
    frames.begin()
    thread = importing(frames, module)
    thread.join(45)
    assert ran(module)


def test_others_import_meanwhile(module, tmp_path):
    """Who waited where modules are found held the lock that every import wants."""
    (tmp_path / "quantviz_other_module.py").write_text("", encoding="utf-8")
    frames = FramePriority(patience=60.0)
    frames.begin()
    thread = importing(frames, module)
    thread.join(0.2)
    importlib.import_module("quantviz_other_module")
    assert sys.modules.pop("quantviz_other_module")
    assert not ran(module)
    frames.end()
    thread.join()
