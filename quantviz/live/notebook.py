"""`qv.show`: a tensor under a scheme, alive in a notebook."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

from quantviz.analysis.study import Study
from quantviz.errors import QuantVizError, known_language
from quantviz.figures.numbers import number
from quantviz.layers.layer_result import LayerResult
from quantviz.live.hand_words import Looks
from quantviz.live.standalone import LivePage
from quantviz.public_calls import public
from quantviz.quantization.quantizer import quantize
from quantviz.quantization.result import QuantResult
from quantviz.schemes.scheme import Scheme
from quantviz.text import DEFAULT_LANGUAGE, text

if TYPE_CHECKING:
    from quantviz.live.widget import LiveWidget


@public
def show(
    what: Any,
    scheme: Scheme | str | None = None,
    *,
    language: str = DEFAULT_LANGUAGE,
    theme: Literal["light", "dark"] | None = None,
) -> LiveWidget:
    """Return a tensor under a scheme as a widget of a notebook, in which it can be quantized anew by hand.

    Its `scheme` and `cell` are those on the screen, and may be set; its `result` is the result there, and
    `save("x.html")` writes it as a page that works offline. Where no scripts run it is a picture.

    Args:
        what: A tensor, or what `quantize` takes; a `QuantResult`; or a `LayerResult`, of which it shows the
            weights.
        scheme: The scheme of a tensor; a result has its own.
        language: One of `quantviz.text.languages()`.
        theme: The colours; the notebook's own if None.

    Raises:
        QuantVizError: anywidget is not installed; a tensor comes without a scheme, or a result with one; or a
            browser cannot quantize the tensor by itself, because it is too large or its codes do not follow
            from its values.
    """
    known_language(language)
    if find_spec("anywidget") is None or find_spec("plotly") is None:
        raise QuantVizError("live.needs_anywidget")
    from quantviz.live.widget import LiveWidget

    result, title = _result_of(what, scheme, language)
    page = LivePage.of(Study.of_result(result), title, Looks(language, theme or "light"))
    if page.problem:
        raise page.problem
    return LiveWidget(page, theme)


def _result_of(what: Any, scheme: Scheme | str | None, language: str) -> tuple[QuantResult, str]:
    """Return the result that is shown, and its title."""
    title = text("live.tensor", language)
    found = what
    if isinstance(what, LayerResult):
        study = what.weights.study
        if study is None or study.result is None or what.weights.effective is not None:
            raise QuantVizError("live.own_codes")
        found = study.result
        used, held_back = (number(each, 3) for each in what.rel_out)
        title = text("live.layer", language, used=used, held_back=held_back)
    if isinstance(found, QuantResult):
        if scheme is not None:
            raise QuantVizError("live.scheme_of_result")
    elif scheme is None:
        raise QuantVizError("live.scheme_wanted")
    else:
        found = quantize(what, scheme)
    shape = " × ".join(map(str, found.shape))
    return found, f"{title} · {shape}"
