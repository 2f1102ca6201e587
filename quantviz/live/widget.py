"""The widget of a notebook: a page that works alone, in a frame, which tells the kernel what was chosen."""

from __future__ import annotations

import base64
from abc import abstractmethod
from dataclasses import replace
from pathlib import PurePath
from typing import Any, Generic, TypeVar

import anywidget
import torch
import traitlets

from quantviz.analysis.study import Study
from quantviz.browser import read_script
from quantviz.browser.messages import MESSAGES, Record, Unfit, decoded
from quantviz.errors import QuantVizError
from quantviz.figures.panel_painter import panel_ramp
from quantviz.figures.panels_data import study_panels
from quantviz.figures.static import panels_png
from quantviz.figures.theme import THEMES
from quantviz.layers.changes import Changes
from quantviz.layers.layer_result import LayerResult, layer
from quantviz.live.layer_page import LayerPage
from quantviz.live.standalone import LivePage
from quantviz.quantization.quantizer import quantize
from quantviz.quantization.result import QuantResult
from quantviz.schemes.granularity import Shape
from quantviz.schemes.recipes import as_scheme
from quantviz.schemes.scheme import Scheme
from quantviz.tensors.lazy import Stored
from quantviz.text import text
from quantviz.whole_files import write_file

_SCRIPT = "notebook"
_SAID = Record(MESSAGES[_SCRIPT], tuple(MESSAGES[_SCRIPT]))
P = TypeVar("P", LivePage, LayerPage)


class LiveWidget(anywidget.AnyWidget, Generic[P]):  # type: ignore[misc]
    """A page that works alone, alive in a notebook, and what was chosen in it."""

    _esm = read_script(_SCRIPT)
    #: The scheme on the screen, in its text form. A recipe or a text that is set here is shown.
    scheme = traitlets.Unicode().tag(sync=True)
    #: The selected cell.
    cell = traitlets.Tuple().tag(sync=True)

    def __init__(
        self, page: P, theme: str | None, scheme: Scheme | None, shapes: tuple[Shape, Shape]
    ) -> None:
        """Show a page; `shapes` are that of the tensor under the `scheme`, and that of the cells."""
        self._page: P = page
        self._quantized, self._cells = shapes
        self._theme = theme
        self._heard = False
        self._edited: dict[Shape, float] = {}
        super().__init__(scheme="" if scheme is None else str(scheme), cell=page.cell)
        self.on_msg(self._hear)
        self.observe(self._chosen_here, ["scheme", "cell"])

    @abstractmethod
    def _now(self) -> P:
        """Return the page with the present result and cell."""

    @abstractmethod
    def still(self) -> dict[str, str]:
        """Return a picture or a table by its type, for where no scripts run."""

    def save(self, path: str | PurePath) -> None:
        """Write the result on the screen as one page of HTML that works offline."""
        write_file(path, replace(self._now(), follows=self._theme is None).html().encode())

    def _repr_mimebundle_(self, **options: Any) -> Any:
        shown = super()._repr_mimebundle_(**options)
        bundle, more = shown if isinstance(shown, tuple) else (shown, {})
        return {**(bundle or {}), **self.still()}, more

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
            page = self._page.in_frame(self._theme or own)
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
        if self._heard:
            return
        self._page = self._now()
        self._edited = {}
        self.send({"anew": True})

    @traitlets.validate("scheme", "cell")  # type: ignore[untyped-decorator]
    def _fitting(self, proposal: Any) -> Any:
        """Return a scheme in its text form, or a cell, that fits the tensor; `QuantVizError` for others."""
        value, shape = proposal["value"], self._cells
        if proposal["trait"].name == "scheme":
            if not value and not self.scheme:
                return value
            scheme = as_scheme(value)
            for problem in scheme.problems(self._quantized):
                raise problem
            return str(scheme)
        inside = [type(i) is int and 0 <= i < n for i, n in zip(value, shape, strict=False)]
        if len(value) != len(shape) or not all(inside):
            raise QuantVizError("index_out_of_range", index=value, shape=shape)
        return value


class TensorWidget(LiveWidget[LivePage]):
    """A tensor under a scheme, alive in a notebook: drag the range, a tooth, the bits or a value."""

    def __init__(self, page: LivePage, theme: str | None) -> None:
        super().__init__(page, theme, page.study.scheme, (page.study.shape,) * 2)

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
        page = replace(self._now(), panels=panels, follows=self._theme is None)
        write_file(path, page.html().encode())

    def _now(self) -> LivePage:
        return replace(self._page, study=Study.of_result(self.result), cell=self.cell)

    def still(self) -> dict[str, str]:
        """Return the panels as a PNG, with the letters that Pillow has: English words."""
        data = study_panels(Study.of_result(self.result))
        theme = THEMES[self._page.looks.theme]
        titles = [text(f"panels.tab.{name}") for name in data.panels]
        ramps = [panel_ramp(name, data, theme) for name in data.panels]
        picture = panels_png(data, titles, ramps, theme, self.scheme)
        return {"image/png": base64.b64encode(picture).decode()}


class LayerWidget(LiveWidget[LayerPage]):
    """A layer, alive in a notebook: drag the range of its inputs, and a channel or a weight of a small one.

    `scheme` is that of the inputs, "" where these are not quantized; `cell` is a token, an output and an
    input channel.
    """

    def __init__(self, page: LayerPage, theme: str | None) -> None:
        tokens, inputs, outputs = page.picture.shape
        shapes = (tokens, inputs), (tokens, outputs, inputs)
        super().__init__(page, theme, page.hand.result.inputs.scheme, shapes)

    @property
    def result(self) -> LayerResult:
        """Return the layer on the screen: with what was set by hand, and its inputs under the scheme."""
        before = self._page.hand.result
        if not self._edited and self.scheme == str(before.inputs.scheme or ""):
            return before
        w: torch.Tensor | Stored = before.weights.stored
        x: torch.Tensor | Stored = before.inputs.stored
        changes = Changes()
        for place, value in self._edited.items():
            *output, channel = place
            if output:
                changes = changes.with_weight(output[0], channel, value)
            else:
                changes = changes.with_channel(channel, value)
        if self._edited:
            w, x = changes.changed(*(side.values(slice(None)) for side in (before.weights, before.inputs)))
        schemes = (before.weights.scheme, self.scheme or None)
        return layer(
            w, x, *schemes, before.bias, method=before.method, static=before.static, seed=before.seed
        )

    def _now(self) -> LayerPage:
        before = self._page
        return replace(LayerPage.of(self.result, before.title, before.hand.looks), cell=self.cell)

    def still(self) -> dict[str, str]:
        """Return the layer's numbers as a table."""
        return {"text/html": self.result._repr_html_()}
