"""A notebook's figure, with a picture for where no plotly draws it: GitHub, a PDF, a plain front end."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any

from quantviz.figures.numbers import number
from quantviz.figures.panels_data import PanelsData
from quantviz.figures.payload import UncheckedFigure
from quantviz.figures.raster import coloured
from quantviz.figures.theme import Ramp, Theme

#: Of a panel's longer side, between panels, and of a line of text.
_SIDE = 260
_GAP = 20
_LINE = 22


class NotebookFigure(UncheckedFigure):
    """A figure that shows itself in a notebook, with a PNG beside it that is made when it is shown.

    A front end draws plotly's figure if it can, else the picture. plotly's own way to show a figure needs
    nbformat, which a notebook elsewhere may not have; this one hands over the same without it.
    """

    def __init__(self, spec: dict[str, Any], picture: Callable[[], bytes] | None = None) -> None:
        super().__init__(spec)
        object.__setattr__(self, "_picture", picture)

    def _repr_mimebundle_(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        bundle: dict[str, Any] = super()._repr_mimebundle_(*args, **kwargs)  # type: ignore[no-untyped-call]
        picture = self._picture
        return {**bundle, "image/png": picture()} if bundle and picture else bundle

    def _ipython_display_(self) -> None:
        bundle = self._repr_mimebundle_()
        if not bundle:  # plotly shows it in a browser
            super()._ipython_display_()  # type: ignore[no-untyped-call]
            return
        from IPython.display import display

        display({**bundle, "text/plain": f"<{len(self.to_dict()['data'])} panels>"}, raw=True)  # type: ignore[no-untyped-call]


def panels_png(
    data: PanelsData, titles: Sequence[str], ramps: Sequence[Ramp], theme: Theme, note: str | None = None
) -> bytes:
    """Return the panels side by side as a PNG, with titles, the ends of colours, and `note` below."""
    from PIL import Image, ImageDraw, ImageFont

    rows, cols = data.seen
    # No pixel of a large tensor's picture is blended with the next: the two may differ in sign.
    side = max(_SIDE, *data.shape)
    width, height = (max(round(side * n / max(rows, cols)), 8) for n in (cols, rows))
    step = side + _GAP
    sheet = Image.new(
        "RGB", (len(data.panels) * step + _GAP, height + 2 * _GAP + (3 if note else 2) * _LINE), theme.surface
    )
    pen = ImageDraw.Draw(sheet)
    font = ImageFont.load_default(13)
    for i, (name, title, ramp) in enumerate(zip(data.panels, titles, ramps, strict=True)):
        left = _GAP + i * step
        (values, (lo, hi)) = data.panel(name)
        pen.text((left, _GAP), _written(title), fill=theme.text, font=font)
        panel = Image.fromarray(coloured(values, lo, hi, ramp, data.middle(name), theme.surface))
        sheet.paste(panel.resize((width, height), Image.Resampling.NEAREST), (left, _GAP + _LINE))
        pen.text(
            (left, _GAP + _LINE + height + 4),
            _written(f"{number(lo)} … {number(hi)}"),
            fill=theme.muted,
            font=font,
        )
    if note:
        pen.text((_GAP, _GAP + 2 * _LINE + height + 4), _written(note), fill=theme.muted, font=font)
    made = io.BytesIO()
    sheet.save(made, "PNG", optimize=True)
    return made.getvalue()


def _written(words: str) -> str:
    # Pillow's own font has no other signs.
    return words.replace("−", "-").replace("×", "x").replace("x\u0302", "x^")
