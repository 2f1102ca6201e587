"""The errors of the session: beside a control, above the page, and a state that waits for a choice."""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from quantviz.errors import QuantVizError
from quantviz.lab.state import LabState
from quantviz.public_calls import inside
from quantviz.streaming.compiling import without_compiling
from quantviz.ui.shell.address import listen, on_desk, page_shown
from quantviz.ui.shell.events import refused
from quantviz.ui.shell.run_facts import begin, keep, kept

#: Errors above the page.
_PAGE = "lab_named"
#: Errors beside controls, by control.
_INPUTS = "lab_complaints"
_WAITING = "lab_waiting"
#: The page to which the errors above it belong; None for the one that is shown next.
_RAISED_ON = "lab_named_on"


@contextlib.contextmanager
def caught_beside(field: str) -> Iterator[None]:
    """Keep a `QuantVizError` for showing beside the controls of `field`, and the state as it was."""
    wait(None)
    try:
        yield
    except QuantVizError as error:
        refused(error)
        keep(on_desk(_INPUTS), {field: error})


def clear() -> None:
    """Clear the errors, once they are fixed or left behind."""
    keep(on_desk(_INPUTS), {})
    keep(on_desk(_PAGE), ())


def show_above(*errors: QuantVizError) -> None:
    """Show errors above the page until another state is taken."""
    for error in errors:
        refused(error)
    keep(on_desk(_PAGE), errors)
    keep(on_desk(_RAISED_ON), None)


def forget() -> None:
    """Forget all errors of the desk."""
    for name in (_PAGE, _INPUTS, _WAITING, _RAISED_ON):
        keep(on_desk(name), None)


def safely(callback: Callable[..., None]) -> Callable[..., None]:
    """Wrap `callback` for a widget: show any error in it as a sentence, and leave the state as it was.

    Streamlit runs callbacks before the page, where the page's error boundary does not reach.
    """

    @functools.wraps(callback)
    def guarded(*args: Any) -> None:
        begin()
        try:
            with without_compiling(), inside():
                listen()
                callback(*args)
            return
        except QuantVizError as error:
            show_above(error)
        except Exception:
            logging.getLogger("quantviz").exception("a callback failed")
            show_above(QuantVizError("callback_failed"))
        keep(on_desk(_RAISED_ON), page_shown())

    return guarded


def input_errors() -> Mapping[str, QuantVizError]:
    """Return the error of the last input, by control."""
    return kept(on_desk(_INPUTS), None) or {}


def page_errors() -> tuple[QuantVizError, ...]:
    """Return the errors above the page: of the link's parameters, of a refused state, of a callback."""
    if kept(on_desk(_RAISED_ON), None) not in (None, page_shown()):
        return ()
    return kept(on_desk(_PAGE), None) or ()


def wait(new: LabState | None) -> None:
    """Keep a state whose scheme refuses NaN or Inf, until something is chosen or another taken."""
    keep(on_desk(_WAITING), new)


def waiting() -> LabState | None:
    """Return the state that waits for a choice of the treatment of NaN and Inf."""
    return kept(on_desk(_WAITING), None)
