"""The ruler: a block's values as dots over a comb of codes, with handles to drag."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from quantviz.browser.packing import pack
from quantviz.live.hand_words import ruler_settings
from quantviz.ui.components.class_wall import votes_on_ruler
from quantviz.ui.components.component import component, counted
from quantviz.ui.shell.classroom import enlarge_ruler
from quantviz.ui.shell.words import language, theme

if TYPE_CHECKING:
    from quantviz.figures.ruler_data import RulerPicture

_COMPONENT = "quantviz_ruler"
_SCRIPT = "ruler_component"


def show_ruler(
    picture: RulerPicture,
    *,
    key: str,
    label: str,
    movable: bool = False,
    on_moved: Callable[[Mapping[str, Any]], None] | None = None,
    larger: float | None = None,
    words: Mapping[str, str] | None = None,
    votes: Mapping[str, Any] | None = None,
) -> None:
    """Show a ruler; `on_moved` gets the handle and place of a drag.

    `label` is the picture in a sentence, for people who cannot see it. Where it is `movable` the selected
    value can be dragged. `larger` is how many times larger it is where a lesson shows it on a projector: all
    its digits have one size there. `words` are this ruler's own, in place of those of every ruler. `votes`
    are a class's, by default those of the page.
    """
    larger = larger or enlarge_ruler()
    settings = {
        **ruler_settings(theme(), language()),
        "enlarge": larger or 1.0,
        "wall": bool(larger),
        "votes": votes or votes_on_ruler(),
    }
    moved, take = counted(key, on_moved) if on_moved else (0, None)
    header, arrays = picture.for_script(settings, label, movable=movable, words=words)
    component(_COMPONENT, _SCRIPT)(
        key=key, data=pack({**header, "moved": moved}, arrays), on_moved_change=take
    )
