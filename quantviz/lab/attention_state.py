"""The state of the page of attention and its link, without streamlit and without torch."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

from quantviz.lab.layer_state import AS_IT_IS, CELL, HELD, LINES, SCHEME, LayerPart
from quantviz.lab.page_state import Codec, PageState, codec, field, one_of, whole_number
from quantviz.lab.typed_numbers import read_number

#: Heads from a file: one that was dropped, which a link does not carry, or a capture in the server's folder.
DROPPED = "upload"
#: Built-in heads, in the order in which they are offered, and a model with a layer.
BUILT_IN = ("loud_mean", "loud_channel", "character_twin")
#: The group of KIVI (arXiv 2402.02750): 32 tokens of a channel at two bits.
KIVI = "uint2,asymmetric,per_group(size=32,axis=0),min_max,hqq"
#: Schemes that each part offers, besides `AS_IT_IS`.
KEYS = ("int8_per_row", "int4_per_row", "int4_per_column", KIVI, "fp8_e4m3_per_tensor", "q8_0", "q4_0")
OTHERS = ("int8_per_tensor", "int8_per_row", "int4_per_row", "fp8_e4m3_per_tensor", "nvfp4")
#: How keys are brought into another form before they are rounded; see `AttentionOptions`.
BASES = ("none", "center", "hadamard", "both")
MASKS = ("own", "causal", "none")
#: Whether rotary positions turn q and k, and where keys and queries are rounded.
POSITIONS = ("none", "after", "before")
LAYOUTS = ("halves", "pairs")
PRODUCTS = ("scores", "output")
SHOWN = ("x", "error")
TABS = ("ways", "cell", "heads")
#: The fields that say which heads are meant.
_ORIGIN = ("heads", "name", "file", "width")
#: The most tokens, channels or heads that a link can name, and the largest base of rotary positions.
MOST_NUMBER, MOST_BASE = 999_999, 1e9
_NUMBER = whole_number(MOST_NUMBER)
_HEADS = one_of(lambda: (*BUILT_IN, *import_module("quantviz.models.character_model").MODELS, DROPPED))
_BASE = codec(lambda form: min(max(read_number(form), 1.0), MOST_BASE), lambda base: f"{base:g}")


def _among(choices: tuple[str, ...]) -> Codec:
    return one_of(lambda: choices)


@dataclass(frozen=True)
class AttentionState(PageState):
    """Everything a person has chosen on the page of attention.

    >>> AttentionState().replace(basis="center", cell=(1, 2)).written()
    {'f': 'loud_mean', 'm': 'center', 'c': '1.2', 't': 'cell'}
    """

    page = "attention"

    #: Built-in heads, a model that runs with one of its layers, or `DROPPED`; and of several in a file the
    #: name of those that are shown. Of captured layers, which make them, the file in the server's folder, if
    #: it is there, and the channels of a head, 0 for the likeliest.
    heads: str = field(BUILT_IN[0], link="f", codec=_HEADS, always=True)
    layer: int = field(1, link="i", codec=_NUMBER)
    name: str = field("", link="n", codec=codec())
    file: str = field("", link="o", codec=codec())
    width: int = field(0, link="u", codec=_NUMBER)
    #: Schemes, each a recipe's id, a scheme's text form, or `AS_IT_IS`.
    keys: str = field("int4_per_row", link="k", codec=SCHEME)
    values: str = field(AS_IT_IS, link="v", codec=SCHEME)
    scores: str = field(AS_IT_IS, link="s", codec=SCHEME)
    queries: str = field(AS_IT_IS, link="q", codec=SCHEME)
    weights: str = field(AS_IT_IS, link="w", codec=SCHEME)
    basis: str = field(BASES[0], link="m", codec=_among(BASES))
    mask: str = field(MASKS[0], link="x", codec=_among(MASKS))
    positions: str = field(POSITIONS[0], link="p", codec=_among(POSITIONS))
    rotary: float = field(10_000.0, link="b", codec=_BASE)
    layout: str = field(LAYOUTS[0], link="y", codec=_among(LAYOUTS))
    residual: int = field(0, link="r", codec=_NUMBER)
    #: The view: the head, one of `PRODUCTS`, one of `SHOWN`, the selected cell and product, the part in view,
    #: and the ends of the error's colours, which stay until another product is shown.
    head: int = field(0, link="h", codec=_NUMBER, looks=True)
    product: str = field(PRODUCTS[0], link="d", codec=_among(PRODUCTS), looks=True)
    shown: str = field(SHOWN[0], link="e", codec=_among(SHOWN), looks=True)
    cell: tuple[int, int] | None = field(None, link="c", codec=CELL, looks=True)
    channel: int | None = field(None, link="j", codec=_NUMBER, looks=True)
    lines: LayerPart | None = field(None, link="l", codec=LINES, looks=True)
    held: tuple[float, ...] | None = field(None, link="z", codec=HELD, looks=True)
    tab: str = field(TABS[0], link="t", codec=_among(TABS), looks=True)

    def replace(self, **changes: Any) -> AttentionState:
        """Return the state with `changes`: places of other heads, or of another product, mean nothing here.

        >>> AttentionState(cell=(1, 2), lines=None).replace(product="output").cell is None
        True
        """
        if any(changes.get(name, getattr(self, name)) != getattr(self, name) for name in _ORIGIN):
            changes = {"head": 0, **changes}
        if changes.keys() & {*_ORIGIN, "head", "product"}:
            changes = {"cell": None, "channel": None, "lines": None, "held": None, **changes}
        if changes.get("cell"):
            changes = {"channel": None, "tab": "cell", **changes}
        return super().replace(**changes)
