from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

from quantviz.analysis.study import Study
from quantviz.errors import QuantVizError, known_language
from quantviz.layers.layer_result import LayerResult
from quantviz.live.hand_words import Looks
from quantviz.live.layer_page import LayerPage
from quantviz.live.standalone import LivePage
from quantviz.public_calls import public
from quantviz.quantization.quantizer import quantize
from quantviz.quantization.result import QuantResult
from quantviz.schemes.scheme import Scheme
from quantviz.text import DEFAULT_LANGUAGE, text

if TYPE_CHECKING:
    from quantviz.live.widget import LayerWidget, TensorWidget


@public
def show(
    what: Any,
    scheme: Scheme | str | None = None,
    *,
    language: str = DEFAULT_LANGUAGE,
    theme: Literal["light", "dark"] | None = None,
) -> TensorWidget | LayerWidget:
    """Return a tensor under a scheme, or a layer, as a widget of a notebook, which is quantized anew by hand.

    Its `scheme` and `cell` are those on the screen, and may be set; its `result` is the result there, and
    `save("x.html")` writes it as a page that works offline. Where no scripts run it is a picture, or a table.
    A layer's `scheme` is that of its inputs, and its `cell` a token, an output and an input channel; one
    under a method, or whose ranges were searched, is looked at, and not moved.

    Args:
        what: A tensor, or what `quantize` takes; a `QuantResult`; or a `LayerResult`.
        scheme: The scheme of a tensor; a result has its own.
        language: One of `quantviz.text.languages()`.
        theme: The colours; the notebook's own if None.

    Raises:
        QuantVizError: anywidget is not installed; a tensor comes without a scheme, or a result with one; or a
            browser cannot quantize it by itself, because it is too large, or a tensor's codes do not follow
            from its values.
    """
    known_language(language)
    if find_spec("anywidget") is None or find_spec("plotly") is None:
        raise QuantVizError("live.needs_anywidget")
    from quantviz.live.widget import LayerWidget, TensorWidget

    looks = Looks(language, theme or "light")
    if isinstance(what, LayerResult | QuantResult) and scheme is not None:
        raise QuantVizError("live.scheme_of_result")
    if isinstance(what, LayerResult):
        title = f"{text('live.layer', language)} · {' × '.join(map(str, what.shape))}"
        return LayerWidget(LayerPage.of(what, title, looks), theme)
    if isinstance(what, QuantResult):
        result = what
    elif scheme is None:
        raise QuantVizError("live.scheme_wanted")
    else:
        result = quantize(what, scheme)
    title = f"{text('live.tensor', language)} · {' × '.join(map(str, result.shape))}"
    page = LivePage.of(Study.of_result(result), title, looks)
    if page.problem:
        raise page.problem
    return TensorWidget(page, theme)
