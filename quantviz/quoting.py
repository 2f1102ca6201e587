"""Names as data in other languages: a tensor's name and a file's are any text.

HTML has the templates of `quantviz.export`, Python its own `repr`, an address
`quantviz.lab.share_links.write_address`.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable

_LATEX = {
    **{each: f"\\{each}" for each in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "∞": r"$\infty$",
    "−": "$-$",
    "–": "--",
    "±": r"$\pm$",
}
#: The start of a cell that a spreadsheet takes for a formula, also after the apostrophe that prevents that.
_FORMULA = re.compile(r"'*[=+\-@\t\r]")


def shell_command(words: Iterable[str]) -> str:
    r"""Return a command for a shell, on one line, with each word quoted where the shell would change it.

    Unprintable characters are written as escapes, which bash, zsh and POSIX shells of 2024 read.

    >>> print(shell_command(["quantviz", "scan", "a'$(id)'.gguf"]))
    quantviz scan 'a'"'"'$(id)'"'"'.gguf'
    >>> print(shell_command(["scan", "a\nb\x1b.gguf"]))
    scan $'a\x0ab\x1b.gguf'
    """
    return " ".join(map(_shell_word, words))


def operand(path: str) -> str:
    """Return a path as a command takes it, with `./` before one that begins with a dash as options do.

    >>> operand("-o.safetensors"), operand("a.safetensors")
    ('./-o.safetensors', 'a.safetensors')
    """
    return f"./{path}" if path.startswith("-") else path


def option_parts(text: str, mark: str, most: int = 0) -> list[str]:
    r"""Return the names in an option, split at each `mark` with no backslash before it.

    With `most` above 0, at most so many splits; the rest stays as it is, because it may not be a name.

    >>> option_parts(r"a\=b\,c=int8(x=1)", "=", 1), option_parts(r"a\,b,c\d", ",")
    (['a=b,c', 'int8(x=1)'], ['a,b', 'c\\d'])
    """
    parts = [""]
    at = 0
    while at < len(text) and not (most and len(parts) > most):
        escapes = text[at] == "\\" and text[at + 1 : at + 2] in ("\\", "=", ",")
        if text[at] == mark:
            parts.append("")
        else:
            parts[-1] += text[at + escapes]
        at += 1 + escapes
    parts[-1] += text[at:]
    return parts


def yaml_text(words: str) -> str:
    r"""Return a text in double quotes for JSON and YAML.

    >>> print(yaml_text("a: \x85\u2028 权重"))
    "a: \u0085\u2028 权重"
    """
    written = json.dumps(words, ensure_ascii=False)
    if written.isprintable():
        return written
    # YAML does not join the halves of a character beyond the first 65,536, and reads it as it is.
    return "".join(
        each if each.isprintable() or ord(each) > 0xFFFF else f"\\u{ord(each):04x}" for each in written
    )


def latex_text(words: str) -> str:
    r"""Return a text for LaTeX, without a character that means something there.

    >>> print(latex_text("a_b & 50 % of ∞ −1"))
    a\_b \& 50 \% of $\infty$ $-$1
    """
    return "".join(_LATEX.get(each, each) for each in words if each.isprintable())


def wildcard(name: str) -> str:
    """Return the pattern of `fnmatch` that matches this name alone.

    >>> wildcard("experts[3].up*")
    'experts[[]3].up[*]'
    """
    return re.sub(r"([*?[])", r"[\1]", name)


def csv_text(words: str) -> str:
    """Return a text for a cell of a CSV file, with an apostrophe before one that looks like a formula.

    >>> csv_text("=1+1"), csv_text("'-0"), csv_text("model.weight")
    ("'=1+1", "''-0", 'model.weight')
    """
    return f"'{words}" if _FORMULA.match(words) else words


def from_csv_text(cell: str) -> str:
    """Return the text that `csv_text` wrote into a cell.

    >>> from_csv_text("'=1+1"), from_csv_text("=1+1"), from_csv_text("'model")
    ('=1+1', '=1+1', "'model")
    """
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def _shell_word(word: str) -> str:
    if word.isprintable():
        return shlex.quote(word)
    return "$'" + "".join(map(_shell_character, word)) + "'"


def _shell_character(each: str) -> str:
    if each in "\\'":
        return f"\\{each}"
    if each.isprintable():
        return each
    # Python decodes a byte of a file name that is not valid UTF-8 to a lone surrogate.
    is_byte = "\udc80" <= each <= "\udcff"
    raw = each.encode("utf-8", "surrogateescape" if is_byte else "surrogatepass")
    return "".join(f"\\x{byte:02x}" for byte in raw)
