"""The part of plotly's script that draws heatmaps: a quarter of it, as other kinds of plots are most."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from importlib import resources

#: A module of the bundle begins: `var name=wrapped((exports,module)=>{…});`. It is called as `name()` where
#: it is needed.
_MODULE = re.compile(r"(?<=[;}\n])var ([\w$]+)=([\w$]+)\((?:[\w$]+|\([\w$,]*\))=>\{")
_CALLED = re.compile(r"(?<![\w$.])([\w$]+)\(\)")
#: The list of all kinds of plots, in the module that is the bundle's own.
_KINDS = re.compile(r"\.register\(\[([^\]]*)\]\)")
_WANTED = 'moduleType:"trace",name:"heatmap"'


@cache
def heatmap_script() -> str:
    """Return the modules of plotly's script that heatmaps need; all where it is built in another way."""
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
    wanted = [each for each in needs(kinds) if any(_WANTED in parts[it] for it in needs(parts[each]))]
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
