"""The part of plotly's script that draws heatmaps: a quarter of it, as most is of its other kinds of plots."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from importlib import resources

#: A module of the bundle begins: `var name=wrapped((exports,module)=>{…});`. It is called as `name()` where it
#: is needed.
_MODULE = re.compile(r"(?<=[;}\n])var ([\w$]+)=([\w$]+)\((?:[\w$]+|\([\w$,]*\))=>\{")
_CALLED = re.compile(r"(?<![\w$.])([\w$]+)\(\)")
#: The list of all kinds of plots, in the module that is the bundle's own.
_KINDS = re.compile(r"\.register\(\[([^\]]*)\]\)")
_WANTED = 'moduleType:"trace",name:"heatmap"'


@cache
def heatmap_script() -> str:
    """Return the modules of plotly's script that the kind of heatmaps needs; all where they are built in
    another way than it knows.
    """
    whole = resources.files("plotly").joinpath("package_data", "plotly.min.js").read_text("utf-8")
    heads = [*_MODULE.finditer(whole)]
    wraps = Counter(each[2] for each in heads).most_common(1)
    starts = [each for each in heads if each[2] == wraps[0][0]]
    edges = [each.start() for each in starts] + [len(whole)]
    parts = {
        each[1]: whole[first:end] for each, first, end in zip(starts, edges[:-1], edges[1:], strict=True)
    }

    def needs(part: str) -> set[str]:
        return parts.keys() & {*_CALLED.findall(part)}

    listed = [(name, found) for name, part in parts.items() for found in _KINDS.finditer(part)]
    if not listed:
        return whole
    root, kinds = listed[-1]
    wanted = [
        f"{each}()" for each in needs(kinds[1]) if any(_WANTED in parts[it] for it in needs(parts[each]))
    ]
    parts[root] = parts[root].replace(kinds[1], ",".join(wanted))
    head = whole[: edges[0]]
    kept: set[str] = set()
    found = {root} | needs(head)
    while found - kept:
        kept |= found
        found = set().union(*(needs(parts[name]) for name in found))
    return head + "".join(part for name, part in parts.items() if name in kept) if wanted else whole
