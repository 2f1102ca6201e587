"""The widget of a notebook: a page that works alone, in a frame, which tells the kernel what was chosen."""

from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import PurePath
from typing import Any

import anywidget
import traitlets

from quantviz.analysis.study import Study
from quantviz.browser import read_script
from quantviz.browser.messages import MESSAGES, Record, Unfit, decoded
from quantviz.errors import QuantVizError
from quantviz.figures.panel_painter import panel_ramp
from quantviz.figures.panels_data import study_panels
from quantviz.figures.static import panels_png
from quantviz.figures.theme import THEMES
from quantviz.live.standalone import LivePage
from quantviz.quantization.quantizer import quantize
from quantviz.quantization.result import QuantResult
from quantviz.schemes.granularity import Shape
from quantviz.schemes.recipes import as_scheme
from quantviz.text import text
from quantviz.whole_files import write_file

_SCRIPT = "notebook"
_SAID = Record(MESSAGES[_SCRIPT], tuple(MESSAGES[_SCRIPT]))


class LiveWidget(anywidget.AnyWidget):  # type: ignore[misc]
    """A tensor under a scheme, alive in a notebook: drag the range, a tooth, the bits or a value."""

    _esm = read_script(_SCRIPT)
    #: The scheme on the screen, in its text form, which `quantize` takes. A recipe or a text that is set here
    #: is shown.
    scheme = traitlets.Unicode().tag(sync=True)
    #: The selected cell.
    cell = traitlets.Tuple().tag(sync=True)

    def __init__(self, page: LivePage, theme: str | None) -> None:
        self._page = page
        self._theme = theme
        self._heard = False
        self._edited: dict[Shape, float] = {}
        super().__init__(scheme=str(page.study.scheme), cell=page.cell)
        self.on_msg(self._hear)
        self.observe(self._chosen_here, ["scheme", "cell"])

    @property
    def result(self) -> QuantResult:
        """Return the result on the screen: of the tensor with the values set by hand, under the scheme."""
        before = self._page.study.result
        assert before is not None
        if not self._edited and self.scheme == str(before.scheme):
            return before
        x = before.x.clone()
        for place, value in self._edited.items():
            x[place] = value
        return quantize(x, self.scheme)

    def save(self, path: str | PurePath, *, panels: bool = True) -> None:
        """Write the result on the screen as one page of HTML that works offline: 0.6 MB with the `panels`,
        0.1 MB without.
        """
        study = Study.of_result(self.result)
        follows = self._theme is None
        page = replace(self._page, study=study, cell=self.cell, panels=panels, follows=follows)
        write_file(path, page.html().encode())

    def _repr_mimebundle_(self, **options: Any) -> Any:
        """Return the widget, and a picture for where no scripts run."""
        shown = super()._repr_mimebundle_(**options)
        bundle, more = shown if isinstance(shown, tuple) else (shown, {})
        return {**(bundle or {}), "image/png": base64.b64encode(self._picture()).decode()}, more

    def _picture(self) -> bytes:
        """Return the panels as a PNG, with the letters that Pillow has: English words."""
        data = study_panels(Study.of_result(self.result))
        theme = THEMES[self._page.looks.theme]
        titles = [text(f"panels.tab.{name}") for name in data.panels]
        ramps = [panel_ramp(name, data, theme) for name in data.panels]
        return panels_png(data, titles, ramps, theme, self.scheme)

    def _hear(self, _: object, message: object, buffers: object) -> None:
        """Send the page that a view asks for, or take what was chosen in it."""
        try:
            heard = decoded(_SAID, message)
        except Unfit:
            return
        if "chosen" in heard:
            self._take(**heard["chosen"])
        if "asked" in heard:
            own = "dark" if heard["asked"]["dark"] else "light"
            looks = replace(self._page.looks, theme=self._theme or own)
            page = replace(self._page, told=True, looks=looks, follows=False)
            self.send({"view": heard["asked"]["view"]}, [page.html().encode()])

    def _take(self, scheme: str, cell: list[int], edits: list[tuple[list[int], float]]) -> None:
        self._edited = {tuple(place): value for place, value in edits}
        self._heard = True
        try:
            self.cell = tuple(cell)
            self.scheme = scheme
        finally:
            self._heard = False

    def _chosen_here(self, _: object) -> None:
        """Show what was chosen in Python."""
        if self._heard:
            return
        self._page = replace(self._page, study=Study.of_result(self.result), cell=self.cell)
        self._edited = {}
        self.send({"anew": True})

    @traitlets.validate("scheme", "cell")  # type: ignore[untyped-decorator]
    def _fitting(self, proposal: Any) -> Any:
        """Return a scheme in its text form, or a cell, that fits the tensor; `QuantVizError` for others."""
        shape = self._page.study.shape
        value = proposal["value"]
        if proposal["trait"].name == "scheme":
            scheme = as_scheme(value)
            for problem in scheme.problems(shape):
                raise problem
            return str(scheme)
        inside = [type(i) is int and 0 <= i < n for i, n in zip(value, shape, strict=False)]
        if len(value) != len(shape) or not all(inside):
            raise QuantVizError("index_out_of_range", index=value, shape=shape)
        return value
