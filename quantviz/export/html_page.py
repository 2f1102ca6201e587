"""Pages of HTML that stand alone, from the templates beside this: no other file, no other host."""

from __future__ import annotations

import math
from functools import cache
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from quantviz.figures.numbers import number
from quantviz.text import DEFAULT_LANGUAGE, text, visible


class MapCell(NamedTuple):
    shown: str = ""
    title: str = ""
    kind: str = ""
    #: Percent of its colour; None for no colour.
    share: int | None = None
    columns: int = 1


def html_page(
    template: str, *, language: str = DEFAULT_LANGUAGE, theme: str | None = None, **values: Any
) -> str:
    """Return a whole page from a template; inserted text is escaped unless it is `Markup`.

    Its theme is that of the reader's system, unless `theme` is "light" or "dark".

    >>> values = {"facts": "", "panels": "<p>…</p>", "width": 400, "surface": "#fff"}
    >>> "<title>&lt;b&gt;</title>" in html_page("figure", title="<b>", **values)
    True
    """

    def say(key: str, /, **params: object) -> str:
        return text(key, language, **params)

    page = _templates().get_template(f"{template}.html")
    return page.render(language=language, theme=theme, say=say, **values)


@cache
def _templates() -> Environment:
    made = Environment(
        loader=PackageLoader("quantviz.export"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: value if isinstance(value, Markup) else visible(str(value)),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["breakable"] = breakable
    return made


def breakable(name: str, after: str = "./") -> Markup:
    """Return a name that may be broken after these signs.

    >>> str(breakable("a.<b>"))
    'a.<wbr>&lt;b&gt;'
    """
    shown = str(escape(visible(name)))
    for sign in after:
        shown = shown.replace(sign, f"{sign}<wbr>")
    return Markup(shown)


def linked(address: str, shown: str) -> str:
    """Return a link to an address of the web; the words alone where there is none.

    >>> str(linked("http://h/?a=1&b=2", "<i>")), linked("javascript:x", "w")
    ('<a href="http://h/?a=1&amp;b=2">&lt;i&gt;</a>', 'w')
    """
    if not address.startswith(("http://", "https://")):
        return shown
    return Markup('<a href="{}">{}</a>').format(visible(address), shown)


def fixed(value: float | None, digits: int = 1, exact: str = "∞") -> str:
    """Return a number with so many decimals, "–" for none; `exact` for ∞, the decibels without an error.

    >>> fixed(-1.25), fixed(math.nan), fixed(math.inf, exact="=")
    ('−1.2', '–', '=')
    """
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        return exact if value > 0 else "−∞"
    return f"{value:.{digits}f}".replace("-", "−")


def shortly(value: float | None, digits: int = 3) -> str:
    """Return a number with so many significant digits, "–" for none."""
    return "–" if value is None or math.isnan(value) else number(value, digits)
