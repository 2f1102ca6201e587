"""Every sentence a person reads, in one TOML file a language."""

from __future__ import annotations

import math
import string
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cache
from html import escape
from pathlib import Path
from types import MappingProxyType
from typing import Any

#: The language used where none was chosen: in notebooks, in `str(error)`.
DEFAULT_LANGUAGE = "en"

#: The fonts of figures and of tables in notebooks.
FONT = '"Source Sans", "Noto Sans SC", "PingFang SC", "Microsoft YaHei", sans-serif'
#: Below this magnitude a number is written by its power of ten, which a beginner cannot read: 2.55e−7 is read
#: at once, 0.000000255 is counted.
LEAST = 1e-6

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
    # A page has a thousand sentences: most have no braces, and few of those with some have nouns in them.
    if "|" in sentence:
        return _SENTENCES.vformat(sentence, (), params)
    return sentence.format(**params) if "{" in sentence or "}" in sentence else sentence


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


def number(value: float, digits: int = 4, *, signed: bool = False) -> str:
    """Return `value` to `digits` significant digits.

    >>> number(-0.41046), number(1.35, signed=True), number(1.93e-5), number(-1.2e-9)
    ('−0.4105', '+1.35', '0.0000193', '−1.2e−9')
    >>> number(float("inf")), number(float("nan"))
    ('∞', '–')
    """
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    written = f"{value + 0.0:.{digits}g}"  # -0.0 is 0 to people
    if "e" in written:
        mantissa, exponent = written.split("e")
        small = LEAST <= abs(float(written)) < 1
        written = f"{Decimal(written):f}" if small else f"{mantissa}e{int(exponent)}"
    plus = "+" if signed and value > 0 else ""
    return plus + written.replace("-", "−")


def table(rows: Iterable[Sequence[object]], head: Sequence[str] = ()) -> str:
    """Return the HTML table that a notebook shows in place of a `repr`.

    Each cell's text is escaped; the first cell of a row is its heading. Fonts and numbers are as in figures,
    in the notebook's own colours.

    >>> table([("shape", "<2 × 3>"), ("error", -0.25)]).partition("<tbody>")[2]
    '<tr><th>shape</th><td>&lt;2 × 3&gt;</td></tr><tr><th>error</th><td>−0.25</td></tr></tbody></table>'
    """

    def cells(values: Iterable[object]) -> str:
        written = (number(each) if isinstance(each, float) else str(each) for each in values)
        return "".join(f"<td>{escape(each)}</td>" for each in written)

    body = "".join(f"<tr><th>{escape(str(first))}</th>{cells(rest)}</tr>" for first, *rest in rows)
    top = f"<thead><tr>{''.join(f'<th>{escape(name)}</th>' for name in head)}</tr></thead>" if head else ""
    style = f"font-family:{FONT};font-variant-numeric:tabular-nums;text-align:left"
    return f'<table style="{escape(style)}">{top}<tbody>{body}</tbody></table>'
