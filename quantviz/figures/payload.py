"""A figure as it is sent to a browser."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import numpy.typing as npt
from plotly.graph_objs._figure import Figure

Array = npt.NDArray[Any]

#: As numpy abbreviates the browser's types.
_DTYPES = frozenset(("f4", "f8", "i1", "u1", "i2", "u2", "i4", "u4"))


def encoded(array: Array) -> dict[str, str]:
    """Return an array as the browser's plotly reads it.

    >>> encoded(np.array([[1, 2]], dtype=np.int8))
    {'dtype': 'i1', 'bdata': 'AQI=', 'shape': '1, 2'}
    """
    if array.dtype.str[1:] not in _DTYPES:
        array = array.astype(np.int32 if array.dtype.kind in "iub" else np.float64)
    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    sent = {"dtype": array.dtype.str[1:], "bdata": base64.b64encode(little.tobytes()).decode("ascii")}
    return sent | {"shape": ", ".join(map(str, array.shape))} if array.ndim > 1 else sent


#: Lengths in pixels by the part of a figure.
_LENGTHS = {
    "layout": ("height",), "margin": ("l", "r", "t", "b"), "font": ("size",), "tickfont": ("size",),
    "textfont": ("size",), "title": ("standoff",), "line": ("width",), "marker": ("size",),
    "xaxis": ("ticklen",), "yaxis": ("ticklen",), "colorbar": ("thickness", "ticklen", "xpad", "ypad"),
    "annotations": ("xshift", "yshift", "standoff", "borderpad", "arrowwidth"),
}  # fmt: skip


def _larger(part: Any, name: str, factor: float) -> Any:
    if isinstance(part, list | tuple):
        return [_larger(each, name, factor) for each in part]
    if not isinstance(part, dict):
        return part
    made = {each: _larger(value, each, factor) for each, value in part.items()}
    for length in _LENGTHS.get(name, ()):
        # A list of sizes has one for each point.
        if isinstance(part.get(length), list | tuple):
            made[length] = [factor * each for each in part[length]]
        elif part.get(length) is not None:
            made[length] = factor * part[length]
    if name == "annotations":
        # An arrow's start is in pixels where it has no axis.
        made |= {end: factor * part[end] for end in ("ax", "ay") if end in part and f"{end}ref" not in part}
    return made


def _sent(value: Any) -> Any:
    # plotly takes bytes of no length for none at all.
    if not isinstance(value, np.ndarray):
        return value
    if value.size and value.dtype.kind in "iufb":
        return encoded(value)
    return value.tolist()


class UncheckedFigure(Figure):
    """The figure of `spec`, plotly's data and layout, unchecked; arrays are sent in base64.

    plotly takes a dictionary apart and puts it together again to send it: of four panels nine tenths of the
    time. Sending takes `to_dict` alone, which returns `spec` here; another attribute takes it apart.

    >>> figure = UncheckedFigure({"data": [{"type": "bar", "y": [1, 2]}], "layout": {"template": {}}})
    >>> figure.to_dict()
    {'data': [{'type': 'bar', 'y': [1, 2]}], 'layout': {'template': {}}}
    >>> figure.update_layout(height=100).data[0].y, figure.layout.height
    ((1, 2), 100)
    """

    def __init__(self, spec: dict[str, Any]) -> None:
        object.__setattr__(self, "_spec", spec)

    def to_dict(self) -> dict[str, Any]:
        """Return plotly's dictionary; its contents are not to be changed."""
        spec: dict[str, Any] | None = self._spec
        if spec is None:
            return super().to_dict()  # type: ignore[no-untyped-call, no-any-return]
        return {
            "data": [{name: _sent(value) for name, value in trace.items()} for trace in spec["data"]],
            "layout": {**spec["layout"]},
        }

    def enlarged(self, factor: float) -> UncheckedFigure:
        """Return text, marks and height `factor` times as large, as wide as before.

        >>> figure = UncheckedFigure({"data": [], "layout": {"height": 100, "font": {"size": 12}}})
        >>> figure.enlarged(1.5).to_dict()["layout"]
        {'height': 150.0, 'font': {'size': 18.0}}
        """
        if factor == 1 or self._spec is None:
            return self
        return UncheckedFigure({name: _larger(part, name, factor) for name, part in self._spec.items()})

    def __getattr__(self, name: str) -> Any:
        # A figure has these once it is taken apart.
        spec = self.__dict__.get("_spec")
        if spec is None:
            raise AttributeError(name)
        object.__setattr__(self, "_spec", None)
        super().__init__(spec, _validate=False)  # type: ignore[no-untyped-call]
        return getattr(self, name)
