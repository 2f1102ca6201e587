"""Names that mean something to a shell, a script, a pattern or a spreadsheet: each comes back as it was."""

import ast
import csv
import fnmatch
import itertools
import json
import os
import re
import subprocess
from types import SimpleNamespace
from urllib.parse import parse_qsl, urlsplit

import pytest
import yaml

from quantviz.checkpoints.allocation.offers import Offers
from quantviz.checkpoints.model_map import read_model
from quantviz.checkpoints.results.rows import ResultRow
from quantviz.checkpoints.results.table_files import read_table
from quantviz.checkpoints.scan.selection import ALL_QUANTIZED
from quantviz.cli.output import Output, write
from quantviz.errors import QuantVizError
from quantviz.export.audit_report import plain
from quantviz.lab.share_links import write_address
from quantviz.quoting import (
    csv_text,
    from_csv_text,
    operand,
    option_parts,
    shell_command,
    wildcard,
    yaml_text,
)
from quantviz.sources.base import file_code
from quantviz.sources.files import READERS, cut_out_snippet
from quantviz.text import languages
from quantviz.ui.checkpoints.answer import python_call, scan_command
from tests.helpers.meaningful_names import NAMES, made

ALL = tuple(dict.fromkeys((*NAMES, *map(made, range(400)))))


def test_a_shell_takes_each_word_as_it_is(tmp_path):
    words = [name for name in ALL if "\x00" not in name and not re.search("[\ud800-\udbff]", name)]
    lines = [f"printf '%s\\0' {shell_command([word])}" for word in words]
    assert all(line.isprintable() for line in lines)
    done = subprocess.run(
        ["bash", "--norc"], input="\n".join(lines).encode(), capture_output=True, cwd=tmp_path, check=True
    )
    assert done.stdout.split(b"\0")[:-1] == list(map(os.fsencode, words))
    assert done.stderr == b""
    assert not any(operand(word).startswith("-") for word in words)


def option_text(name):
    """The name as part of an option that takes several: a backslash before each of "=", "," and backslash."""
    return re.sub(r"([\\=,])", r"\\\1", name)


def test_names_in_an_option_come_back_and_what_is_behind_them_stays():
    for name, other in itertools.pairwise(ALL):
        assert option_parts(f"{option_text(name)}=int4(a=b\\=c)", "=", 1) == [name, "int4(a=b\\=c)"]
        assert option_parts(",".join(map(option_text, (name, other, name))), ",") == [name, other, name]
        # A name as people have always written it: with nothing in it that an option reads.
        if not set("\\=,") & set(name):
            assert option_text(name) == name


def skeleton(code):
    """The syntax of a script without what its texts say, and the texts; comments are none of it."""
    tree = ast.parse(code)
    texts = [each.value for each in ast.walk(tree) if isinstance(each, ast.Constant)]
    for each in ast.walk(tree):
        if isinstance(each, ast.Constant):
            each.value = None
    return ast.dump(tree), texts


@pytest.mark.parametrize("suffix", READERS)
def test_a_name_in_a_script_is_a_text_and_nothing_else(suffix):
    plain, _ = skeleton(cut_out_snippet(f"a{suffix}", "b"))
    plain_code, _ = skeleton("\n".join(file_code("a", repr("b"), False, "en")))
    for name in NAMES:
        found, texts = skeleton(cut_out_snippet(f"{name}{suffix}", name))
        assert found == plain
        assert f"{name}{suffix}" in texts
        found, texts = skeleton("\n".join(file_code(name, repr(name), False, "en")))
        assert found == plain_code
        assert texts.count(name) == 2


def test_the_call_that_a_scan_shows_has_each_name_as_a_text():
    def call(path, name):
        rows = [ResultRow(name, "int8_per_row", file="f", numbers={"sqnr_db": 30.0})]
        model = read_model([(name, (8, 8), "F32", "f")], rows, ["int8_per_row"])
        return python_call(
            SimpleNamespace(chosen="x"),
            SimpleNamespace(path=f"/m/{path}", selection=ALL_QUANTIZED),
            model,
            "int8_per_row",
        )

    plain, _ = skeleton(call("a", "b"))
    for name in ALL:
        file = name.replace("/", "").strip(".") or "a"
        code = call(file, name)
        found, texts = skeleton(code)
        assert found == plain
        assert {file, name} <= set(texts)
        command = code.splitlines()[-1]
        assert command == f"# {scan_command(file, ['int8_per_row'])}"
        assert command.isprintable()


def test_yaml_and_json_read_each_name():
    for name in ALL:
        assert json.loads(yaml_text(name)) == name
        if not re.search("[\ud800-\udfff]", name):
            assert yaml.safe_load(f"- {yaml_text(name)}\n") == [name]


def test_a_pattern_of_a_name_matches_that_name_alone():
    for name in ALL:
        assert fnmatch.filter(ALL, wildcard(name)) == [name]


def test_an_address_carries_each_name():
    for name in ALL:
        if re.search("[\ud800-\udfff]", name):
            continue
        address = write_address("http://127.0.0.1:8501/", "lab", {"f": name, "k": "x"})
        assert dict(parse_qsl(urlsplit(address).query, keep_blank_values=True)) == {"f": name, "k": "x"}
        assert not re.search(r"[\s<>\"'`]", address)


def test_markdown_shows_each_name_in_one_line():
    for name in ALL:
        shown = plain(name)
        assert len(shown.splitlines()) <= 1
        assert not re.search(r"(?<!\\)(\\\\)*[|<\[`*]", shown)


# ---- tables ---------------------------------------------------------------------------------------


def rows_of(names):
    return [
        {"tensor": name, "recipe": "int8_per_row", "status": "ok", "reason": None, "dtype": name, "bits": 8}
        | {"sqnr_db": 30.5, "mse": 1e-5, "shape": [8, 64], "content": name, "kurtosis": -1.25}
        for name in names
    ]


@pytest.mark.parametrize("form", ["csv", "json", "jsonl", "parquet"])
def test_each_name_comes_back_from_a_table_and_no_two_become_one(tmp_path, form):
    # Of halves of characters a file has what `put` writes for them.
    names = [name for name in ALL if not re.search("[\ud800-\udfff]", name)]
    write(Output(form, tmp_path / f"t.{form}"), rows_of(names))
    found = Offers.of(read_table(tmp_path / f"t.{form}"))
    assert [row.tensor for row in found.table.rows] == names
    assert len(found.first) == len(names)
    assert {(row.bits, row.sqnr_db) for row in found.table.rows} == {(8, 30.5)}


def test_no_cell_of_a_text_is_a_formula_to_a_spreadsheet(tmp_path):
    names = [name for name in ALL if not re.search("[\ud800-\udfff]", name)]
    write(Output("csv", tmp_path / "t.csv"), rows_of(names))
    with (tmp_path / "t.csv").open(newline="", encoding="utf-8") as file:
        cells = list(csv.DictReader(file))
    assert len(cells) == len(names)
    for row in cells:
        assert not row["tensor"].startswith(tuple("=+-@\t\r"))
        assert row["kurtosis"] == "-1.25"
    marked = {cell["tensor"] for cell in cells} - set(names)
    assert {"'-0", "'=1+1", "''=1", "'''@a"} <= marked
    for name in ALL:
        assert from_csv_text(csv_text(name)) == name
    pairs = itertools.combinations(map(csv_text, ALL), 2)
    assert all(one != other for one, other in pairs)


def test_half_a_character_in_a_name_is_shown_and_linked_without_an_error():
    """A file's name need not be text: such a sentence, or such an address, could not be sent to a browser."""
    half = "\ud800x"
    for problem in (
        QuantVizError("checkpoint.not_offered", file=half),
        QuantVizError("link.choice", got=half, known=half),
    ):
        for language in languages():
            problem.message(language).encode()
    assert write_address("http://a", "lab", {"t": half}) == "http://a/lab?t=%3Fx"
