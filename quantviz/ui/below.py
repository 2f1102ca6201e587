"""Below the fold: which scheme to use, histograms, scales, exports."""

from __future__ import annotations

from quantviz.link import LabState


def show_recipes(state: LabState) -> None:
    pass


def show_histograms(state: LabState) -> None:
    pass


def show_scales(state: LabState) -> None:
    pass


def show_exports(state: LabState) -> None:
    pass
