"""Work that goes from one thing to the next: its progress, the button that ends it, and how far it came."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import streamlit as st

from quantviz.ui.components.small_parts import show_button
from quantviz.ui.shell.words import plain, say


def show_progress(key: str, cancel: Callable[..., None], *args: Any) -> tuple[Any, Any]:
    """Show a bar with the button that cancels beside it; return the place of both, to be emptied, and the
    bar.

    Args:
        key: The place on the page.
        cancel: Called with `args` when the button is pressed. The run that works ends by itself.
        *args: The arguments of `cancel`.
    """
    place = st.empty()
    with place.container(key=f"{key}_progress", horizontal=True, vertical_alignment="center"):
        bar = st.progress(0.0)
        show_button(say("checkpoints.cancel"), f"{key}_cancel", cancel, *args)
    return place, bar


@dataclass
class SteppedWork:
    """Work of a session on some things, one after the other, until all are done or it is cancelled.

    >>> walk = SteppedWork("squares")
    >>> walk.found[3] = 9
    >>> walk.missing((2, 3))
    [2]
    """

    #: Names the work: of other things there is another one.
    of: str
    is_running: bool = True
    #: The result for each thing that is done; it stays when the work is cancelled.
    found: dict[Any, Any] = field(default_factory=dict)

    def missing(self, things: Iterable[Any]) -> list[Any]:
        """Return the things that are not done."""
        return [thing for thing in things if thing not in self.found]

    def cancel(self) -> None:
        """End the work after what is done."""
        self.is_running = False

    def go_on(self) -> None:
        """Go on with the work after it was cancelled."""
        self.is_running = True

    def go_through(
        self,
        things: Iterable[Any],
        make: Callable[[Any, Callable[[float], None]], Any],
        words: Callable[[Any], str],
        key: str,
    ) -> None:
        """Do what is missing, if it runs, and show how far it is.

        Args:
            things: All things, in order.
            make: Returns the result for a thing; it may pass on the share of it that is done.
            words: Returns the sentence on a thing that is being done.
            key: The place on the page.
        """
        every = list(things)
        missing = self.missing(every)
        if not self.is_running or not missing:
            self.is_running = False
            return
        place, bar = show_progress(key, self.cancel)

        def show_share(thing: Any, share: float) -> None:
            bar.progress((len(self.found) + share) / len(every), plain(words(thing)))

        for thing in missing:
            show_share(thing, 0.0)
            self.found[thing] = make(thing, partial(show_share, thing))
        self.is_running = False
        place.empty()
