"""The HTML file around the parts of a page that works without a server: it sends nothing, and evaluates no
text.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any

from markupsafe import Markup

from quantviz.browser import read_script
from quantviz.export.html_page import html_page
from quantviz.figures.theme import THEMES
from quantviz.live.hand_words import Looks

#: The key of the panels in the page.
CHART = "alone"
#: The signs of base 85 that mean something in HTML, and others in their place.
_PLAIN = str.maketrans("<&", ",.")
#: A module of plotly's bundle begins `var name=wrapped((exports,module)=>{…});` and is called as `name()`.
_MODULE = re.compile(r"(?<=[;}\n])var ([\w$]+)=([\w$]+)\((?:[\w$]+|\([\w$,]*\))=>\{")
_CALLED = re.compile(r"(?<![\w$.])([\w$]+)\(\)")
#: The list of all kinds of plots, in the bundle's root module.
_KINDS = re.compile(r"\.register\(\[([^\]]*)\]\)")
_WANTED = re.compile('moduleType:"trace",name:"(?:heatmap|image)"')


def with_named_programs(header: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return a header with names in place of its programs' texts, and the texts in the order of the names."""
    texts = [*header["texts"], header["metrics"]["text"]]
    *names, last = (f"p{i}" for i in range(len(texts)))
    return {**header, "texts": names, "metrics": {**header["metrics"], "text": last}}, texts


def live_html(
    parts_of: Callable[[str], tuple[Mapping[str, bytes], Sequence[str]]],
    looks: Looks,
    *,
    kind: str,
    follows: bool,
    panels: bool = True,
    framed: bool = False,
    **values: Any,
) -> str:
    """Return a page without a server, with values of the template `live.html`.

    Args:
        parts_of: Returns the packed parts of the page in the colours of a theme, which differ in their
            headers alone, and the texts of its programs.
        looks: Its language, and its theme where it does not follow the reader's system.
        kind: Of `alone.js`: "tensor", "layer", "frames" for pages of one tensor side by side, or "apart" for
            pages of several tensors; the parts are then the pages.
        follows: Whether its theme is that of the reader's system.
        panels: Whether it has plotly's script.
        framed: Whether it stands in a page that has the scripts.
    """
    return html_page(
        "live",
        language=looks.language,
        theme=None if follows else looks.theme,
        kind=kind,
        surfaces=[THEMES[each].surface for each in (("light", "dark") if follows else (looks.theme,) * 2)],
        **live_values(parts_of, looks, kind=kind, follows=follows, panels=panels, framed=framed),
        panels=panels,
        **values,
    )


def live_values(
    parts_of: Callable[[str], tuple[Mapping[str, bytes], Sequence[str]]],
    looks: Looks,
    *,
    kind: str,
    follows: bool = True,
    panels: bool = True,
    framed: bool = False,
) -> dict[str, Any]:
    """Return the values of the template `live_scripts.html`; see `live_html`."""
    parts, texts = parts_of("light" if follows else looks.theme)
    dark = parts_of("dark")[0] if follows else {}
    programs = ",".join(f"p{i}:({body})" for i, body in enumerate(texts))
    own = f"Object.assign(quantvizParts,{{kind:{json.dumps(kind)},programs:{{{programs}}}}});"
    scripts = {"own": own.encode()} if framed else {"own": own.encode(), "start": _start().encode()}
    heads = {name: part[: 4 + int.from_bytes(part[:4], "little")] for name, part in dark.items()}
    return {
        "parts": {name: _text_of(part) for name, part in parts.items()},
        "heads": {name: _text_of(head) for name, head in heads.items()},
        "plotly": Markup(_plotly()) if panels and not framed else None,
        "scripts": {name: _text_of(script) for name, script in scripts.items()},
    }


def _text_of(data: bytes) -> Markup:
    """Return bytes, deflated, as text without `<` and `&`."""
    deflate = zlib.compressobj(9, wbits=-zlib.MAX_WBITS)
    return Markup(base64.b85encode(deflate.compress(data) + deflate.flush()).decode().translate(_PLAIN))


@cache
def _plotly() -> str:
    return str(_text_of(heatmap_script().encode()))


@cache
def _start() -> str:
    lines = (line.strip() for line in read_script("alone").splitlines())
    return "\n".join(line for line in lines if line and not re.match("//", line))


@cache
def heatmap_script() -> str:
    """Return the modules of plotly's script of heatmaps and images; all where the bundle is built in another
    way.
    """
    whole = resources.files("plotly").joinpath("package_data", "plotly.min.js").read_text("utf-8")
    heads = [*_MODULE.finditer(whole)]
    wrapped = Counter(each[2] for each in heads).most_common(1)
    starts = [each for each in heads if each[2] == wrapped[0][0]]
    edges = [each.start() for each in starts] + [len(whole)]
    parts = {each[1]: whole[first:end] for each, first, end in zip(starts, edges, edges[1:], strict=False)}

    def needs(part: str) -> set[str]:
        return parts.keys() & {*_CALLED.findall(part)}

    listed = [(name, found[1]) for name, part in parts.items() for found in _KINDS.finditer(part)]
    if not listed:
        return whole
    root, kinds = listed[-1]
    wanted = [each for each in needs(kinds) if any(_WANTED.search(parts[it]) for it in needs(parts[each]))]
    if not wanted:
        return whole
    parts[root] = parts[root].replace(kinds, ",".join(f"{each}()" for each in wanted))
    head = whole[: edges[0]]
    kept: set[str] = set()
    found = {root} | needs(head)
    while found - kept:
        kept |= found
        found = set().union(*(needs(parts[name]) for name in found))
    return head + "".join(part for name, part in parts.items() if name in kept)
