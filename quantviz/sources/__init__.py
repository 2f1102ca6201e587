"""Sources of tensors.

A source is a small frozen value, which a link, a cache key and a page hold without torch. It is added here:
one class in `SOURCES` and its words under `[sources.<id>]` in each language. Tensors that a person types
(`typed.py`), uploads (`upload.py`) or edits (`edited.py`) are sources too, but not in that list.

>>> parse_source("normal(rows=8,cols=4,seed=7)")
Normal(rows=8, cols=4, seed=7, mean=0.0, std=1.0)
>>> write_source(parse_source("normal(rows=8,cols=4,seed=7)"))
'normal(rows=8,cols=4,seed=7)'
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, cast

from quantviz.errors import QuantVizError
from quantviz.schemes import text_form
from quantviz.sources.base import Source as Source
from quantviz.sources.builtin import Builtin as Builtin
from quantviz.sources.edited import Edited as Edited
from quantviz.sources.edited import read_edit
from quantviz.sources.edited import with_cell as with_cell
from quantviz.sources.hub_tensor import HubTensor as HubTensor
from quantviz.sources.local import LocalTensor as LocalTensor
from quantviz.sources.matrix import AsMatrix as AsMatrix
from quantviz.sources.random import AfterGelu as AfterGelu
from quantviz.sources.random import AllPositive as AllPositive
from quantviz.sources.random import Bimodal as Bimodal
from quantviz.sources.random import Laplace as Laplace
from quantviz.sources.random import LoudChannels as LoudChannels
from quantviz.sources.random import LoudColumns as LoudColumns
from quantviz.sources.random import LoudRows as LoudRows
from quantviz.sources.random import Normal as Normal
from quantviz.sources.random import OneOutlier as OneOutlier
from quantviz.sources.random import StudentT as StudentT
from quantviz.sources.random import Uniform as Uniform
from quantviz.sources.typed import Typed
from quantviz.sources.upload import Upload as Upload

#: Every source that is written as its id and fields, by id, in the order a page lists them.
SOURCES: Mapping[str, type[Any]] = MappingProxyType(
    {
        each.id: each
        for each in (
            *(Builtin, Normal, Laplace, Uniform, StudentT, Bimodal),
            *(LoudRows, LoudColumns, OneOutlier, AllPositive),
            *(LoudChannels, AfterGelu),
        )
    }
)


#: Those whose values or names are packed into a link, as `<id>.<payload>`.
_PACKED: Mapping[str, type[Any]] = MappingProxyType({each.id: each for each in (LocalTensor, Typed)})


def parse_source(form: str, *, present: bool = True) -> Source:
    """Return the source written as `form`.

    `as_matrix(…)` around another form is a view of that one, `edited(…)` has other values in some cells,
    `hub(…)` lies in a published model.

    Raises:
        QuantVizError: The id is unknown, a field bad or a value impossible, or the file is not there, unless
            it need not be `present`.
    """
    head, _, payload = form.partition(".")
    name, _, inner = form.partition("(")
    if name == AsMatrix.id and inner.endswith(")"):
        own, outputs = AsMatrix.read_form(inner[:-1])
        source: Source = AsMatrix(parse_source(own, present=present), outputs)
    elif name == Edited.id and inner.endswith(")"):
        source = _read_edited(inner[:-1], present)
    elif name == HubTensor.id and inner.endswith(")"):
        source = HubTensor.from_text(form)
    elif head in _PACKED:
        source = _PACKED[head].from_payload(payload)
    elif form.startswith(Upload.id):
        raise QuantVizError("link.upload")
    else:
        source = cast(Source, text_form.read(form, SOURCES, "source.unknown"))
    for problem in source.problems() if present or not source.unedited.original.in_file else ():
        raise problem
    return source


def _read_edited(form: str, present: bool) -> Source:
    own, *edits = text_form.split_outside_parentheses(form)
    # A view of another source stands outside of the edits, not inside.
    if own.partition("(")[0] in (Edited.id, AsMatrix.id):
        raise QuantVizError("source.edited_form", got=own)
    source = parse_source(own, present=present)
    for edit in edits:
        source = with_cell(source, *read_edit(edit))
    return source


def write_source(source: Source) -> str:
    """Return the text form without defaults; that of an upload where no link can carry the source."""
    return Upload.id if source.link_problem() else source.link_text()
