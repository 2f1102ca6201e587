"""Every sentence a person reads, in one TOML file a language."""

from __future__ import annotations

import string
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from html import escape
from pathlib import Path
from types import MappingProxyType
from typing import Any

#: The language used where none was chosen: in notebooks, in `str(error)`.
DEFAULT_LANGUAGE = "en"

_FOLDER = Path(__file__).parent


@cache
def languages() -> tuple[str, ...]:
    """Return the languages there are, the default one first.

    >>> languages()
    ('en', 'zh')
    """
    found = sorted(path.stem for path in _FOLDER.glob("*.toml"))
    return (DEFAULT_LANGUAGE, *(name for name in found if name != DEFAULT_LANGUAGE))


@cache
def catalogue(language: str) -> Mapping[str, str]:
    """Return all sentences of one language by dotted key, read-only."""
    with (_FOLDER / f"{language}.toml").open("rb") as file:
        return MappingProxyType(dict(_flatten(tomllib.load(file))))


def text(key: str, language: str = DEFAULT_LANGUAGE, /, **params: object) -> str:
    """Return the sentence `key` in `language`, with `params` put into its braces.

    An unknown key is a bug of ours, hence a `KeyError`.

    >>> text("modes.symmetric.name")
    'symmetric'
    >>> text("modes.symmetric.name", "zh")
    '对称'
    >>> text("phone.bits", bits=1), text("phone.bits", bits=4)
    ('1 bit', '4 bits')
    """
    sentence = catalogue(language)[key]
    # Most have no braces, and a page has a thousand.
    return _SENTENCES.vformat(sentence, (), params) if "{" in sentence or "}" in sentence else sentence


@cache
def templates(table: str, language: str) -> Mapping[str, str]:
    """Return the sentences of a table by their names, with their braces, which a browser fills in.

    >>> templates("minimap", "en")["where"]
    'rows {rows} × columns {cols} of {all_rows} × {all_cols}'
    """
    keys = ((*key.rpartition("."), sentence) for key, sentence in catalogue(language).items())
    return MappingProxyType({name: sentence for above, _, name, sentence in keys if above == table})


class _Sentences(string.Formatter):
    """Put values into sentences; `{bits:bit|bits}` is the number with its noun, for one and for several."""

    def format_field(self, value: Any, format_spec: str) -> str:
        if "|" not in format_spec:
            return format(value, format_spec)
        one, several = format_spec.split("|")
        return f"{value} {one if str(value) == '1' else several}"


_SENTENCES = _Sentences()


def visible(words: str) -> str:
    r"""Return `words` with invisible characters spelled out: control characters, marks that turn the
    direction of the text, halves of characters.

    >>> visible("\u202egnp.exe, 权重")
    '\\u202egnp.exe, 权重'
    """
    if words.isprintable():
        return words
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in words
    )


def _flatten(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def table(rows: Iterable[Sequence[object]], head: Sequence[str] = ()) -> str:
    """Return the HTML table that a notebook shows in place of a `repr`.

    Each cell's text is escaped; the first cell of a row is its heading.

    >>> table([("shape", "<2 × 3>")])
    '<table><tbody><tr><th>shape</th><td>&lt;2 × 3&gt;</td></tr></tbody></table>'
    """
    body = "".join(
        f"<tr><th>{escape(str(first))}</th>{''.join(f'<td>{escape(str(cell))}</td>' for cell in rest)}</tr>"
        for first, *rest in rows
    )
    top = f"<thead><tr>{''.join(f'<th>{escape(name)}</th>' for name in head)}</tr></thead>" if head else ""
    return f"<table>{top}<tbody>{body}</tbody></table>"
