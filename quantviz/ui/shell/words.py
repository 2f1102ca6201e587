"""Words and numbers as a person reads them, in the language of the session."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

import streamlit as st

from quantviz.errors import Note, QuantVizError
from quantviz.figures.numbers import number as number
from quantviz.lab.layer_state import NEAREST
from quantviz.schemes.axis_names import Axes
from quantviz.schemes.recipes import ALL_RECIPES, recipe_name
from quantviz.schemes.text_form import read_head, split_outside_parentheses
from quantviz.sources import Source
from quantviz.text import DEFAULT_LANGUAGE, catalogue, languages, text
from quantviz.ui.shell.classroom import classroom
from quantviz.ui.shell.run_facts import keep, kept

T = TypeVar("T")

#: Words that are remembered at most of each function.
_REMEMBERED = 256
#: The session's language, one of `languages()`.
_LANGUAGE = "language"
#: Marks that Streamlit makes into links, icons and arrows after Markdown's own escapes; a word joiner keeps
#: them text.
_ACTIVE = re.compile(r":(?=//|\w)|www(?=\.)|@|&(?=#?\w+;)|-(?=[->])|<(?=-)")
#: Marks that turn the direction of the text around them.
_DIRECTIONS = re.compile("[\u202a-\u202e\u2066-\u2069\u200e\u200f]")
#: The spaces of "20.4 %", "18.2 dB", "r = 0.5" and "3.7 × rms".
_WITHIN_NUMBERS = re.compile(r"(?<=[\d∞]) (?=%|dB\b|×)|(?<=\w) (?== )|(?<=[=×]) ")
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|$~:^=])")


def language() -> str:
    """Return the session's language: chosen, else the link's, else the browser's, else English."""
    chosen: str | None = kept(_LANGUAGE, None)
    if chosen is None:
        wanted = st.query_params.get("lang") or (st.context.locale or DEFAULT_LANGUAGE).partition("-")[0]
        chosen = wanted if wanted in languages() else DEFAULT_LANGUAGE
        keep(_LANGUAGE, chosen)
    return chosen


def set_language(name: str | None) -> None:
    """Switch the session's language; a switch without a value, as on a page that was replaced while it
    loaded, changes nothing.
    """
    if name in languages():
        keep(_LANGUAGE, name)


def theme() -> str:
    """Return the theme of the figures, one of `figures.theme.THEMES`."""
    brightness = "dark" if st.context.theme.type == "dark" else "light"
    return f"{brightness}_projected" if classroom().projector else brightness


def say(key: str, /, **params: object) -> str:
    """Return the sentence `key` in the session's language."""
    return text(key, language(), **params)


def remembered(make: Callable[..., T]) -> Callable[..., T]:
    """Have `make`, whose words follow from its arguments and the language, make them once; never to be
    changed.
    """

    @functools.lru_cache(maxsize=_REMEMBERED)
    def made(_: str, *args: Hashable) -> T:
        return make(*args)

    @functools.wraps(make)
    def words(*args: Hashable) -> T:
        return made(language(), *args)

    return words


def sentences(*parts: str) -> str:
    """Return sentences one after the other, as the language sets them; empty ones are left out."""
    return say("sentences.between").join(filter(None, parts))


def capital(words: str) -> str:
    """Return words as a sentence begins with them; in Chinese a name in Latin letters stays as it is."""
    has_case = (letter.lower() != letter.upper() for letter in words if letter.isalpha())
    return words[:1].upper() + words[1:] if all(has_case) else words


def say_axis(source: Source, axis: int, form: str = "name") -> str:
    """Return an axis in the session's language; `form` is one of `Axes.words`."""
    return source.axes.words(axis, form, language())


@remembered
def recipe_names(axes: Axes) -> dict[str, str]:
    """Return the names of all recipes, as they are on a tensor of these axes."""
    return {name: recipe_name(name, language(), axes) for name in ALL_RECIPES}


def say_error(error: QuantVizError) -> str:
    """Return an error as Markdown that shows a user's own text as plain text."""
    return plain(_worded(error).message(language()))


#: Names of ids in the parameters of errors and notes, with the keys of their words.
_IDS = {"convention": "conventions", "format": "formats", "mode": "modes", "granularity": "granularities"}
#: The same of methods, and of chains of them.
_CHAINS = frozenset({"method", "methods"})


def _worded(error: QuantVizError) -> QuantVizError:
    """Return the error with names for people in the place of ids, which a page does not show."""
    return QuantVizError(error.key, **_named(error.params))


def _named(given: Mapping[str, object]) -> dict[str, object]:
    """Return the parameters of an error or a note with names in the place of ids."""
    params = dict(given)
    # The kind of an id is its parameter's name, or `what` for the ids in `got` and `offered`.
    kinds = {**{name: name for name in _IDS}, **dict.fromkeys(("got", "offered"), params.get("what"))}
    for name, value in params.items():
        kind = kinds.get(name)
        if isinstance(value, QuantVizError):
            params[name] = _worded(value)
        elif name in _CHAINS and isinstance(value, str):
            params[name] = method_name(value)
        elif kind == "size" and name == "got":
            params[name] = say("granularities.size", size=value)
        elif kind in _IDS and isinstance(value, str):
            params[name] = say("cell.then_comma").join(
                _name_of(_IDS[str(kind)], each) for each in value.split(", ")
            )
    return params


def _name_of(registry: str, identifier: str) -> str:
    """Return the name under an id in the catalogue; the id itself where it is unknown."""
    key = f"{registry}.{identifier}.name"
    return say(key) if key in catalogue(language()) else identifier


def say_note(note: Note) -> str:
    """Return a note as Markdown, with names for people in the place of ids."""
    return plain(Note.of(note.key, **_named(note.params)).message(language()))


def method_name(form: str) -> str:
    """Return the name of a chain of methods for people, with the fields that differ from the usual ones."""
    if form == NEAREST:
        return say("layers.method.nearest")
    names = []
    for part in split_outside_parentheses(form, "+"):
        name, fields = read_head(part.strip())
        values = say("cell.then_comma").join(_said_field(field, value) for field, value in fields.items())
        name = _name_of("layers.methods", name)
        names.append(say("layers.method.with_fields", name=name, fields=values) if values else name)
    return " + ".join(names)


def _said_field(field: str, value: str) -> str:
    """Return a method's field with its value for people; as a link has it where there are no words."""
    for name in (f"{field}_{value}", field):
        key = f"layers.method.flags.{name}"
        if key in catalogue(language()):
            return say(key, value=value.removesuffix(".0"))
    return f"{field}={value}"


def plain(words: object) -> str:
    """Escape `words` for Streamlit's Markdown.

    >>> plain("a*b")
    'a\\\\*b'
    """
    quiet = _ACTIVE.sub("\\g<0>\u2060", _DIRECTIONS.sub("", str(words)))
    return _MARKDOWN.sub(r"\\\1", quiet)


def share(value: float) -> str:
    """Return a share as a percentage: 0 % and 100 % only where it is exactly that.

    >>> share(0.8281), share(0.0), share(0.99999), share(0.00001), share(math.nan)
    ('82.8 %', '0 %', '> 99.9 %', '< 0.1 %', '–')
    """
    if math.isnan(value):
        return "–"
    percent = 100 * value
    if 0 < percent < 0.1:
        return "< 0.1 %"
    if 99.9 < percent < 100:
        return "> 99.9 %"
    return f"{percent:.3g} %"


def shape_text(shape: tuple[int, ...]) -> str:
    """Return a shape as it is spoken.

    >>> shape_text((4, 6))
    '4 × 6'
    """
    return " × ".join(map(str, shape))


def count_text(count: int) -> str:
    """Return a count as a short text: beyond a million with units, in Chinese of ten thousand."""
    if count < 1_000_000:
        return f"{count:,}"
    return f"{count / 1e4:,.4g} 万" if language() == "zh" and count < 10**8 else f"{count / 1e6:,.4g} M"


def unbroken(words: str) -> str:
    """Return words in which no line ends between a number and its unit.

    >>> unbroken("r = 0.5 leaves 2.1 %")
    'r\\xa0=\\xa00.5 leaves 2.1\\xa0%'
    """
    return _WITHIN_NUMBERS.sub("\u00a0", words)
