"""Messages of the browser: the shape of each, and the one decoder of them all.

A message comes from a browser: anything may be in it. Here each message of each script stands with the types
and bounds of its parts, and `decoded` returns the message in this shape, or raises `Unfit`. A message that
fits may still be wrong for the present state of the page: its receiver checks that.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias


class Unfit(Exception):
    """A message, or a part of it, does not have its shape."""


@dataclass(frozen=True)
class Flag:
    """True or false."""


@dataclass(frozen=True)
class Whole:
    """A whole number."""

    least: int = 0
    #: JavaScript counts no further.
    most: int = 2**53


@dataclass(frozen=True)
class Number:
    """A finite number."""

    least: float = -sys.float_info.max
    most: float = sys.float_info.max


@dataclass(frozen=True)
class Text:
    """A text; half of a surrogate pair, which is none, becomes a question mark."""

    #: Characters.
    most: int


@dataclass(frozen=True)
class Word:
    """One of some words."""

    known: tuple[str, ...]


@dataclass(frozen=True)
class Items:
    """A list of things of one shape."""

    of: Shape
    least: int
    most: int


@dataclass(frozen=True)
class FixedList:
    """A list of things, each of its own shape."""

    of: tuple[Shape, ...]


@dataclass(frozen=True)
class Named:
    """Things of one shape by their names."""

    of: Shape
    names: Shape
    most: int


@dataclass(frozen=True)
class Record:
    """Things by the names that they have. Others are left away."""

    fields: Mapping[str, Shape]
    #: Names of those that need not be there.
    optional: tuple[str, ...] = ()


@dataclass(frozen=True)
class Kinds:
    """A record, by the word that stands in its `kind`."""

    kinds: Mapping[str, Record]


@dataclass(frozen=True)
class Maybe:
    """A thing of a shape, or none."""

    of: Shape


@dataclass(frozen=True)
class Either:
    """A thing of the first of some shapes that it has."""

    of: tuple[Shape, ...]


Shape: TypeAlias = (
    Flag | Whole | Number | Text | Word | Items | FixedList | Named | Record | Kinds | Maybe | Either
)


def decoded(shape: Shape, said: object) -> Any:
    """Return a message as plain values, with the types and within the bounds of its shape.

    A shape is only as deep as it is written, so a message of any depth is safe to decode.

    Raises:
        Unfit: The message does not have the shape.

    >>> decoded(Record({"row": Whole()}), {"row": 3, "more": [[]]})
    {'row': 3}
    >>> decoded(Maybe(Number(0, 9)), float("nan"))
    Traceback (most recent call last):
    quantviz.browser.messages.Unfit
    """
    match shape:
        case Flag():
            if isinstance(said, bool):
                return said
        case Whole(least, most):
            if type(said) is int and least <= said <= most:
                return said
        case Number(low, high):
            # Compared before it is made a float, for which it may be too large.
            if isinstance(said, int | float) and not isinstance(said, bool) and low <= said <= high:
                return float(said)
        case Text(most):
            if isinstance(said, str) and len(said) <= most:
                return said.encode("utf-8", "replace").decode()
        case Word(known):
            if isinstance(said, str) and said in known:
                return said
        case Items(of, least, most):
            if isinstance(said, list | tuple) and least <= len(said) <= most:
                return [decoded(of, each) for each in said]
        case FixedList(shapes):
            if isinstance(said, list | tuple) and len(said) == len(shapes):
                return [decoded(each, part) for each, part in zip(shapes, said, strict=True)]
        case Named(of, names, most):
            if isinstance(said, Mapping) and len(said) <= most:
                return {decoded(names, name): decoded(of, value) for name, value in said.items()}
        case Record(fields, optional):
            if isinstance(said, Mapping):
                there = [name for name in fields if name in said or name not in optional]
                return {name: decoded(fields[name], said.get(name)) for name in there}
        case Kinds(kinds):
            if isinstance(said, Mapping):
                kind = decoded(Word(tuple(kinds)), said.get("kind"))
                return {"kind": kind, **decoded(kinds[kind], said)}
        case Maybe(of):
            return None if said is None else decoded(of, said)
        case Either(shapes):
            for each in shapes:
                try:
                    return decoded(each, said)
                except Unfit:
                    continue
    raise Unfit


# ---- the messages -------------------------------------------------------------------------------

#: Characters of a learner's progress as the browser keeps it: more than are read of it, so that one that is
#: too long is said to be.
LONGEST_PROGRESS = 2**18
#: Characters of a scheme's text form, or of a part of a link.
LONGEST_FORM = 4000
#: Parts of a link.
MOST_PARTS = 40
#: CSS pixels of a page.
WIDEST = 100_000
#: Marks, lines and cells that can be chosen at once.
MOST_CHOSEN = 1000
#: Lines of a table that can be written in at once, and cells of such a line: as many as a typed tensor has.
MOST_WRITTEN = 512 * 512

_FLOAT32 = Number(-3.4028234663852886e38, 3.4028234663852886e38)
_WIDTH = Number(0, WIDEST)
_CELL = Record({"row": Whole(), "col": Whole()})
_WINDOW = Record({"top": Whole(), "left": Whole(), "rows": Whole(1), "cols": Whole(1)})
#: An output of a layer with the input channel of one of its products, and a part of a layer.
_OUTPUT = Record({"token": Whole(), "output": Whole(), "channel": Maybe(Whole())})
_LINES = Record(dict.fromkeys(("tokens", "inputs", "outputs"), FixedList((Whole(), Whole(1)))))
_PARTS = Named(Text(LONGEST_FORM), Text(40), MOST_PARTS)
#: An answer in a room: its question has a narrower shape.
_VOTE = Either((Whole(), Number(), Text(LONGEST_FORM), Items(Whole(), 1, 8)))
_GO = Record({"page": Word(("lab", "lesson", "model")), "parameters": Maybe(_PARTS)})
#: Choices of hands in their order: a number, the page, the field and the value's form in links.
_CHOICES = Items(FixedList((Whole(1), Text(40), Text(80), Text(LONGEST_FORM))), 1, MOST_CHOSEN)


def _counted(kinds: Mapping[str, Mapping[str, Shape]]) -> Kinds:
    """Return moves of a hand, which counts them."""
    return Kinds({kind: Record({**fields, "count": Whole(1)}, ("count",)) for kind, fields in kinds.items()})


_HANDLES: Mapping[str, Mapping[str, Shape]] = {
    "range": {"lo": Number(), "hi": Number()},
    "value": {"cell": Whole(), "value": Number()},
}
#: New place of a ruler's handle: see `quantviz/browser/ruler/handles.js`.
_HANDLE = _counted(_HANDLES)
_MOVES: Mapping[str, Mapping[str, Shape]] = {
    "range": {"lo": _FLOAT32, "hi": _FLOAT32},
    "given": {"scale": _FLOAT32, "zero_point": _FLOAT32},
    "format": {"id": Text(LONGEST_FORM)},
    "group": {"size": Whole(1)},
    "cell": {"cell": Items(Whole(), 1, 4), "value": _FLOAT32},
    "scheme": {"scheme": Text(LONGEST_FORM)},
    "mark": {"at": Number()},
}
#: Move of a hand at its release: see `quantviz/lab/moves.py`.
_MOVE = _counted(_MOVES)
#: The state of a page in a notebook: its scheme, the selected cell, and cells whose value was set by hand.
_INDEX = Items(Whole(), 1, 4)
_ON_SCREEN = Record(
    {
        "scheme": Text(LONGEST_FORM),
        "cell": _INDEX,
        "edits": Items(FixedList((_INDEX, _FLOAT32)), 0, MOST_WRITTEN),
    }
)
_LAYER_MOVES: Mapping[str, Mapping[str, Shape]] = {
    "range": {"lo": _FLOAT32, "hi": _FLOAT32, "channel": Maybe(Whole())},
    "channel": {"size": _FLOAT32, "channel": Whole()},
    "weight": {"output": Whole(), "value": _FLOAT32, "channel": Whole()},
}
#: Move of a hand in the picture of a layer: see `quantviz/lab/layer_moves.py`.
_LAYER_MOVE = _counted(_LAYER_MOVES)

#: Messages of each script of this folder, by the names that its component has. A script that is not here
#: sends none.
MESSAGES: Mapping[str, Mapping[str, Shape]] = {
    "panels_bridge": {"cell": _CELL, "window": _WINDOW, "width": _WIDTH},
    "hand_component": {
        "release": _MOVE,
        "try": Record({"lo": _FLOAT32, "hi": _FLOAT32, "number": Whole()}),
    },
    "letters": {"size": Number(1, 200)},
    "desk_component": {"found": Record({"code": Text(4), "key": Text(100)}), "ended": Flag()},
    "wall_component": {"moved": Whole(1)},
    "controls_component": {"chosen": _CHOICES, "opened": Text(80)},
    "ruler_component": {"moved": _HANDLE},
    "formats_bridge": {"code": Whole(), "width": _WIDTH},
    "multiplication_bridge": {
        "cell": _OUTPUT,
        "lines": _LINES,
        "whole": Flag(),
        "height": Whole(100, 10_000),
    },
    "layer_hand_component": {"release": _LAYER_MOVE},
    "dial_component": {"stop": Record({"stop": Whole(0, 1000), "count": Whole(1)})},
    "gallery_component": {"at": Whole(), "cell": _CELL},
    "room": {
        "follow": Record({"stop": Maybe(Whole(0, 1000))}),
        "voted": Record({"stop": Whole(), "round": Whole(1, 2), "sure": Flag(), "answer": _VOTE}),
    },
    "home_component": {"go": _GO},
    "notebook": {"asked": Record({"view": Text(40), "dark": Flag()}), "chosen": _ON_SCREEN},
    "continue_component": {"go": _GO},
    "progress": {
        "stored": Record({"count": Whole(1), "text": Text(LONGEST_PROGRESS)}),
        "refused": Flag(),
    },
}

#: Value that a mark of a chart has of its own.
_MARK = Either((Text(LONGEST_FORM), Number()))
#: Messages of Streamlit's own charts and tables, by Streamlit's names.
ELEMENTS: Mapping[str, Shape] = {
    "points": Items(
        Record({"customdata": Either((_MARK, Items(Maybe(_MARK), 1, 100)))}, ("customdata",)),
        0,
        MOST_CHOSEN,
    ),
    "rows": Items(Whole(), 0, MOST_CHOSEN),
    "cells": Items(FixedList((Whole(), Text(LONGEST_FORM))), 0, MOST_CHOSEN),
    "edited_rows": Named(Named(Maybe(_MARK), Text(LONGEST_FORM), MOST_WRITTEN), Whole(), MOST_WRITTEN),
}
