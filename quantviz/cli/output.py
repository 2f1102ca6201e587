"""Target and form of a command's data; sentences for people go to stderr.

@click.command()
@click.argument("path")
@with_output()
def scan(path: str, output: Output) -> None:
    '''Measure every tensor.'''
    write(output, table)
"""

from __future__ import annotations

import functools
import io
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import click

from quantviz.cli.text_table import text_fields, text_table
from quantviz.errors import Note, QuantVizError
from quantviz.quoting import csv_text
from quantviz.text import DEFAULT_LANGUAGE, text, visible
from quantviz.whole_files import cannot_write, write_file

#: The forms of a table, each with the suffix of its files.
FORMATS = {"table": ".txt", "json": ".json", "jsonl": ".jsonl", "csv": ".csv", "parquet": ".parquet"}
#: Forms that a terminal can show.
_FOR_TERMINALS = ("table", "json", "jsonl", "csv", "markdown", "latex")
#: Exit statuses besides 0: finished with findings; a wrong use, or a file that cannot be opened; interrupted;
#: the reader of a pipe has gone, as the shell gives it.
FOUND = 1
UNUSABLE = 2
INTERRUPTED = 130
CLOSED_PIPE = 141
#: Key of the chosen language in Click's context.
LANGUAGE = "quantviz.language"

_F = TypeVar("_F", bound=Callable[..., Any])


class Bound(click.types.FloatParamType):
    """A number that others are held to. NaN is none: nothing is below it, and every gate would pass."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if number != number:
            self.fail(f"{value!r} is not a number.", param, ctx)
        return number


@dataclass(frozen=True)
class Output:
    format: str
    path: Path | None = None


def with_output(*, tables: bool = True, **more: str) -> Callable[[_F], _F]:
    """Return a decorator that adds `--format` and `-o` to a command and hands it an `Output` as `output`.

    `more` are forms that the command writes by itself through `put`, each with its suffix: `html=".html"`.
    Without `tables` there are no others, and the first of them is the usual one. An output that cannot be
    written is refused before the command begins.
    """
    formats = {**(FORMATS if tables else {}), **more}
    usual = next(iter(formats))

    def decorate(command: _F) -> _F:
        @click.option(
            "--format",
            "output_format",
            type=click.Choice(list(formats)),
            help=f"Form of the data. Default: by the file's suffix, else {usual}.",
        )
        @click.option(
            "-o",
            "--output",
            "output_file",
            type=click.Path(),
            metavar="FILE",
            help=f"Write into this file; {', '.join(formats.values())} decide the form. Default: stdout.",
        )
        @functools.wraps(command)
        def wrapped(*args: Any, output_format: str | None, output_file: str | None, **options: Any) -> Any:
            return command(*args, output=_chosen(output_format, output_file, formats), **options)

        return wrapped  # type: ignore[return-value]

    return decorate


def _chosen(form: str | None, file: str | None, formats: Mapping[str, str]) -> Output:
    path = Path(file) if file not in (None, "-") else None
    of_suffix = next(
        (name for name, suffix in formats.items() if path and path.suffix.lower() == suffix), None
    )
    if form and of_suffix and form != of_suffix:
        raise QuantVizError("cli.two_formats", file=str(path), format=form, suffix=formats[of_suffix])
    if path and not form and not of_suffix and not _is_device(path):
        raise QuantVizError("cli.unknown_suffix", file=str(path), known=", ".join(formats.values()))
    output = Output(form or of_suffix or next(iter(formats)), path)
    if output.format == "parquet" and find_spec("pyarrow") is None:
        raise QuantVizError("cli.needs_pyarrow")
    if path is None and output.format not in _FOR_TERMINALS and sys.stdout.isatty():
        raise QuantVizError("cli.not_to_terminal", format=output.format)
    if path and (path.is_dir() or not path.absolute().parent.is_dir()):
        raise cannot_write(path, IsADirectoryError() if path.is_dir() else FileNotFoundError())
    return output


def write(output: Output, data: Any, *, for_people: Sequence[str] = ()) -> None:
    """Write a table: a DataFrame, a list of records, or one record.

    Each form has the columns in the order of the data, those of the first record first. NaN is no value: null
    in JSON and Parquet, an empty cell in CSV; JSON has null for ±Inf too. JSON is one document: a list of
    objects, or one object for one record, of which the table has a line for each field. Of a DataFrame only
    the columns are written. The table has only the columns `for_people`, where some are named.
    """
    if output.format == "parquet":
        put(output, _as_parquet(data))
        return
    columns, rows = _columns_and_rows(data)
    if output.format == "table" and isinstance(data, Mapping):
        put(output, f"{text_fields(dict(zip(columns, rows[0], strict=True)))}\n")
    elif output.format == "table":
        if for_people:
            shown = [columns.index(name) for name in for_people if name in columns]
            columns = [columns[k] for k in shown]
            rows = [[row[k] for k in shown] for row in rows]
        width = room(output)
        lines, left_out = text_table(columns, rows, width)
        put(output, _heading(lines) if width else f"{lines}\n")
        if left_out:
            say("cli.columns_left_out", count=left_out)
    elif output.format == "csv":
        # A text stays one in a spreadsheet, and is read back as it was by `quantviz allocate`.
        put(output, "".join(f"{','.join(map(_csv_cell, row))}\n" for row in (columns, *rows)))
    else:
        records = [dict(zip(columns, row, strict=True)) for row in rows]
        if isinstance(data, Mapping):
            put(output, f"{as_json(records[0], None if output.format == 'jsonl' else 2)}\n")
        elif output.format == "jsonl":
            put(output, "".join(f"{as_json(record, None)}\n" for record in records))
        else:  # a line for each record
            put(output, "[" + ",".join(f"\n{as_json(record, None)}" for record in records) + "\n]\n")


def summarized(data: Any, summary: str) -> Any:
    """Return a table with a last column `summary`, whose first row has a sentence on all of it."""
    if hasattr(data, "iloc"):
        return data.assign(summary=[summary if not number else None for number in range(len(data))])
    return [{**row, "summary": None if number else summary} for number, row in enumerate(data)]


def room(output: Output) -> int | None:
    """Return the columns of the terminal that the data go to; None where they go elsewhere."""
    return shutil.get_terminal_size().columns if output.path is None and sys.stdout.isatty() else None


def put(output: Output, content: str | bytes) -> None:
    """Write text as UTF-8, or bytes, to stdout or in one step into the file."""
    raw = content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content
    if output.path is None:
        _to_stdout(raw)
    else:
        write_file(output.path, raw)


def language() -> str:
    context = click.get_current_context(silent=True)
    chosen: str = context.meta.get(LANGUAGE, DEFAULT_LANGUAGE) if context else DEFAULT_LANGUAGE
    return chosen


def say(key: str, /, **params: object) -> None:
    """Print the sentence of `key` on stderr."""
    click.echo(visible(text(key, language(), **params)), err=True)


def complain(remark: QuantVizError | Note) -> None:
    """Print a warning or note on stderr; the command goes on."""
    click.echo(visible(remark.message(language())), err=True)


def as_json(value: Any, indent: int | None = 2) -> str:
    r"""Return a JSON document: null for numbers that are not finite, and escapes for unprintable characters.

    >>> as_json({"sqnr_db": float("inf"), "tensor": "权重\x9b"}, None)
    '{"sqnr_db": null, "tensor": "权重\\u009b"}'
    """
    written = json.dumps(_finite(value), ensure_ascii=False, allow_nan=False, indent=indent)
    # A list of numbers stays on its line.
    written = re.sub(r"\[\n[^\[\]{}\"]*\]", lambda found: f"[{' '.join(found[0][1:-1].split())}]", written)
    if written.replace("\n", "").isprintable():
        return written
    return "".join(each if each.isprintable() or each == "\n" else json.dumps(each)[1:-1] for each in written)


def _finite(value: Any) -> Any:
    value = _plain(value)
    if isinstance(value, float):
        return value if abs(value) < float("inf") else None
    if isinstance(value, dict):
        return {str(name): _finite(each) for name, each in value.items()}
    return [_finite(each) for each in value] if isinstance(value, list) else value


def _plain(value: Any) -> Any:
    """Return a value as Python's own types: None for NaN, text for other types."""
    if hasattr(value, "tolist"):  # numpy's and torch's
        value = value.tolist()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return None if value != value else value
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else str(value)


def _columns_and_rows(data: Any) -> tuple[list[str], list[list[Any]]]:
    if hasattr(data, "iloc"):
        frame = data.astype(object).where(data.notna(), None)  # pandas' marks of no value are None too
        values = [[_plain(cell) for cell in frame.iloc[:, k].tolist()] for k in range(frame.shape[1])]
        return list(map(str, data.columns)), [list(row) for row in zip(*values, strict=True)]
    records = [data] if isinstance(data, Mapping) else data
    columns = list(dict.fromkeys(name for record in records for name in record))
    return columns, [[_plain(record.get(name)) for name in columns] for record in records]


def _csv_cell(value: Any) -> str:
    """Return a value as a cell of a CSV, with the fewest digits that read back as the same number.

    >>> [_csv_cell(each) for each in (None, 0.1, -2, [64, 128], "a,b", "-0")]
    ['', '0.1', '-2', '"[64, 128]"', '"a,b"', "'-0"]
    """
    if isinstance(value, list | dict):
        words = as_json(value, None)
    elif isinstance(value, str):
        words = csv_text(value)
    else:
        words = "" if value is None else str(value)
    # csv.writer leaves a carriage return as it is, which ends a line for csv.reader.
    needs_quotes = any(sign in words for sign in ',"\r\n')
    return f'"{words.replace(chr(34), chr(34) * 2)}"' if needs_quotes else words


def _as_parquet(data: Any) -> bytes:
    import pyarrow
    from pyarrow import parquet

    if hasattr(data, "iloc"):
        table = pyarrow.Table.from_pandas(data, preserve_index=False)
    else:
        columns, rows = _columns_and_rows(data)
        table = pyarrow.table({name: [row[k] for row in rows] for k, name in enumerate(columns)})
    sink = io.BytesIO()
    parquet.write_table(table, sink)
    return sink.getvalue()


def _heading(lines: str) -> str:
    """Return a table for a terminal, its first line bold unless `NO_COLOR` is set."""
    first, end, rest = lines.partition("\n")
    return f"{first if os.environ.get('NO_COLOR') else click.style(first, bold=True)}{end}{rest}\n"


def _to_stdout(raw: bytes) -> None:
    """Write to stdout; where its reader has gone, end without a word.

    Raises:
        QuantVizError: It cannot be written, as on a full disk.
    """
    stream = sys.stdout.buffer
    try:
        stream.write(raw)
        stream.flush()
    except OSError as error:
        # Python flushes stdout at its end: that output goes nowhere, so that no error is printed.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        if isinstance(error, BrokenPipeError):
            raise click.exceptions.Exit(CLOSED_PIPE) from None
        raise cannot_write("stdout", error) from None


def _is_device(path: Path) -> bool:
    """Return whether a path is there and no plain file: /dev/stdout, a named pipe."""
    return path.exists() and not path.is_file() and not path.is_dir()
