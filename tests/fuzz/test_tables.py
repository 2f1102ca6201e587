"""Tables with values that are none: each is a sentence that names the row, and a report shows the rest."""

import contextlib
import datetime
import json
import math
import random
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow
import pytest
from pyarrow import parquet

import quantviz as qv
from quantviz.checkpoints.allocation.allocating import allocate
from quantviz.checkpoints.allocation.offers import Offers
from quantviz.checkpoints.allocation.sensitivities import alphas
from quantviz.checkpoints.results import table_files, typed_values
from quantviz.checkpoints.results.table_files import read_table
from quantviz.checkpoints.results.typed_tables import KINDS
from quantviz.checkpoints.results.typed_values import NUMBER_DIGITS, TABLE_COLUMNS, TEXT_CHARACTERS
from quantviz.cli.output import Output, write
from quantviz.text import languages
from tests.helpers.damage import damaged
from tests.helpers.sample import sample_of

RECIPES = ("int4_g32", "int8_per_row")
TENSORS = ("a.weight", "b.weight", "c.weight")


def records():
    """Rows of three tensors under two recipes."""
    return [
        {
            "tensor": tensor,
            "recipe": recipe,
            "status": "ok",
            "reason": None,
            "shape": [8, 64],
            "dtype": "F32",
            "content": f"content of {tensor}",
            "bits": 512 * bits,
            "mse": 0.25 / bits,
            "sqnr_db": 5.0 * bits + at,
            "max_error": 0.5,
            "max_error_at": [1, 2],
            "kurtosis": 3.0,
            "low": -1.0,
            "high": 1.0,
            "nan": 0,
        }
        for at, tensor in enumerate(TENSORS)
        for recipe, bits in zip(RECIPES, (4, 8), strict=True)
    ]


#: What stands in place of a value in a table that a script hands over.
VALUES = {
    "none": None,
    "NaN": math.nan,
    "NA": pd.NA,
    "infinite": math.inf,
    "negative": -1,
    "huge": 10**400,
    "a float beyond": 1e308,
    "a text": "seven",
    "many digits": "9" * 5000,
    "a long text": "x" * (TEXT_CHARACTERS + 1),
    "empty": "",
    "bytes": b"\xff",
    "true": True,
    "a list": [],
    "nested": [[1], [2]],
    "lengths of texts": ["8", None],
    "negative lengths": [-8, 64],
    "large lengths": [2**62, 2**62],
    "a mapping": {"a": 1},
    "an array": np.array([1.5, math.nan]),
    "a date": datetime.date(2026, 11, 25),
    "a decimal": Decimal("1e400"),
    "complex": 1j,
    "an object": object(),
    "half a character": "\ud800",
}
COLUMNS = [name for name in records()[0] if name in KINDS]
TRIES = [(column, value) for column in COLUMNS for value in VALUES]


def used(table):
    """Allocate and report; the sentences that were said, and the report."""
    said = []
    try:
        allocate(table, budget_bits=10**6)
    except qv.QuantVizError as problem:
        said.append(problem)
    page = ""
    try:
        page = qv.report(table)
    except qv.QuantVizError as problem:
        said.append(problem)
    for problem in said:
        assert all(0 < len(problem.message(language)) < 1500 for language in languages())
    return said, page


@pytest.mark.parametrize(("column", "value"), sample_of(TRIES, 40), ids=str)
def test_a_value_that_is_none_is_named_and_the_rest_is_reported(column, value):
    rows = records()
    rows[2][column] = VALUES[value]
    with contextlib.suppress(qv.QuantVizError):
        # Whatever is said of the damaged row, it is the only one.
        Offers.of(rows)
    said, page = used(rows)
    assert "a.weight" in page
    assert "c.weight" in page
    for problem in said:
        named = problem.params.get("row") == 3 or problem.params.get("tensor") == "b.weight"
        assert named, problem


DAMAGED_TABLES = {
    "a number": 5,
    "a text": "tensor",
    "nothing": None,
    "a list of numbers": [1, 2],
    "a list of texts": ["tensor"],
    "records and others": [*records(), 7],
    "columns of several lengths": {"tensor": ["a"], "recipe": ["b"], "bits": [1, 2], "cost": [1]},
    "a column that is a number": {"tensor": 5, "recipe": ["b"], "bits": [1], "cost": [1]},
    "a column that is a text": {"tensor": "a", "recipe": "b", "bits": "1", "cost": "1"},
    "a column that is a mapping": {"tensor": {}, "recipe": ["b"], "bits": [1], "cost": [1]},
    "no rows": {"tensor": [], "recipe": [], "bits": [], "cost": [], "sqnr_db": [], "status": []},
    "many columns": [{f"c{k}": 1 for k in range(TABLE_COLUMNS + 1)}],
    "two columns of one name": pd.DataFrame(
        [["a", "b", 1, 2, 3]], columns=["tensor", "recipe", "bits", "cost", "cost"]
    ),
    "columns without names": pd.DataFrame([[1, 2, 3, 4]]),
    "names that are numbers": {1: [1], 2: [2]},
    "an index of several levels": pd.DataFrame({("tensor", "x"): ["a"], ("bits", "y"): [1]}),
}


@pytest.mark.parametrize("name", DAMAGED_TABLES)
def test_what_is_no_table_is_a_sentence(name):
    said, page = used(DAMAGED_TABLES[name])
    assert len(said) == 2 - bool(page)
    assert not page


# ---- files ----------------------------------------------------------------------------------------


def csv_of(*rows):
    return ("tensor,recipe,bits,cost\n" + "\n".join(rows) + "\n").encode()


TABLE_FILES = {
    "long.csv": (csv_of("a,b,1,2,3"), "row_too_long"),
    "late.csv": (csv_of("a,b,1,2", 'c,"d\nd",1,2', "e,f,1,2,3,4"), "row_too_long"),
    "twice.csv": (b"tensor,recipe,bits,bits,cost\na,b,1,2,3\n", "column_twice"),
    "columns.csv": (",".join(f"c{k}" for k in range(300)).encode(), "too_many_columns"),
    "digits.csv": (csv_of(f"a,b,{'9' * 5000},2"), "row"),
    "digits.json": (b'[{"tensor": "a", "recipe": "b", "bits": %s, "cost": 1}]' % (b"9" * 5000), "row"),
    "digits.jsonl": (b'{"tensor": "a", "recipe": "b", "bits": %s, "cost": 1}' % (b"9" * 5000), "row"),
    "nested.json": (b"[" * 100_000, "cannot_read"),
    "number.json": (b"5", "no_table"),
    "text.json": (b'"tensor"', "no_table"),
    "null.json": (b"null", "no_table"),
    "rows.json": (b"[1, 2]", "no_table"),
    "columns.json": (b'{"tensor": 5, "recipe": ["b"], "bits": [1], "cost": [2]}', "no_column"),
    "half.json": (b'[{"tensor": "a"', "cannot_read"),
    "latin.csv": (csv_of("a,b,1,2") + b"\xff", "cannot_read"),
    "one line.csv": (csv_of("x" * 200_000 + ",b,1,2"), "cannot_read"),
    "no.parquet": (b"PAR1" + b"\0" * 100 + b"PAR1", "cannot_read"),
    "empty.csv": (b"", "no_column"),
    "empty.json": (b"", "cannot_read"),
    "empty.jsonl": (b"", "no_column"),
    "empty.parquet": (b"", "cannot_read"),
    "nul.csv": (csv_of("a\0,b,1,x\0"), "cost_not_number"),
    "unfinished.csv": (csv_of('a,"b,1,2'), "cost_not_number"),
    "short.csv": (csv_of("a,b"), "cost_not_number"),
}


@pytest.mark.parametrize("name", TABLE_FILES)
def test_a_file_that_is_no_table_is_named(tmp_path, name):
    content, key = TABLE_FILES[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(qv.QuantVizError) as refused:
        allocate(read_table(tmp_path / name), budget_bits=10**6)
    assert refused.value.key.rpartition(".")[2] == key
    if name.startswith("digits"):
        assert f"{5000:,} digits" in str(refused.value)
        assert f"{NUMBER_DIGITS}" in str(refused.value)


PARQUETS = {
    "lists": {"tensor": [["a"]], "recipe": ["b"], "bits": [1], "cost": [2.0]},
    "nulls": {"tensor": [None], "recipe": ["b"], "bits": [1], "cost": [2.0]},
    "bytes": {"tensor": [b"\xff"], "recipe": ["b"], "bits": [1], "cost": [2.0]},
    "dates": {"tensor": ["a"], "recipe": ["b"], "bits": [datetime.datetime(9999, 1, 1)], "cost": [2.0]},
    "decimals": {"tensor": ["a"], "recipe": ["b"], "bits": [Decimal("1.5")], "cost": [2.0]},
    "mappings": {"tensor": [{"a": 1}], "recipe": ["b"], "bits": [1], "cost": [2.0]},
    "texts": {"tensor": ["a"], "recipe": ["b"], "bits": ["1"], "cost": [2.0]},
}


@pytest.mark.parametrize("name", PARQUETS)
def test_a_parquet_of_other_kinds_is_named(tmp_path, name):
    parquet.write_table(pyarrow.table(PARQUETS[name]), tmp_path / "t.parquet")
    with pytest.raises(qv.QuantVizError):
        allocate(read_table(tmp_path / "t.parquet"), budget_bits=10**6)


@pytest.mark.parametrize("form", ["csv", "json", "jsonl", "parquet"])
def test_a_table_beyond_the_bounds_is_refused(tmp_path, monkeypatch, form):
    write(Output(form, tmp_path / f"t.{form}"), records())
    monkeypatch.setattr(typed_values, "TABLE_ROWS", 5)
    with pytest.raises(qv.QuantVizError, match="more than the 5 rows"):
        read_table(tmp_path / f"t.{form}")
    monkeypatch.setattr(typed_values, "TABLE_JSON_BYTES" if form == "json" else "TABLE_BYTES", 100)
    with pytest.raises(qv.QuantVizError, match="larger than the 100 bytes"):
        read_table(tmp_path / f"t.{form}")


def test_a_line_beyond_the_bound_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(table_files, "_MOST_OF_LINE", 100)
    (tmp_path / "t.jsonl").write_text('{"tensor": "' + "x" * 100)
    with pytest.raises(qv.QuantVizError, match="Line 1 has more than the 100 characters"):
        read_table(tmp_path / "t.jsonl")


FORMS = ("csv", "json", "jsonl", "parquet")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The same rows in each form."""
    folder = tmp_path_factory.mktemp("tables")
    for form in FORMS:
        write(Output(form, folder / f"t.{form}"), records())
    return folder


@pytest.mark.parametrize("seed", sample_of(range(400), 40))
def test_a_table_that_is_damaged_at_random_is_used_or_named(tmp_path, written, seed):
    chance = random.Random(seed)
    form = FORMS[seed % len(FORMS)]
    content = (written / f"t.{form}").read_bytes()
    file = tmp_path / f"t.{form}"
    file.write_bytes(damaged(content, [content], chance))
    with contextlib.suppress(qv.QuantVizError):
        used(read_table(file))


@pytest.mark.parametrize("form", FORMS)
def test_each_form_comes_back_with_its_types(written, form):
    found = Offers.of(read_table(written / f"t.{form}"))
    assert found.table.rows == Offers.of(records()).table.rows
    assert json.dumps(found.table.rows[0].shape) == "[8, 64]"


SENSITIVITIES = {
    "long.csv": b"tensor,alpha\na.weight,1,2\n",
    "digits.csv": b"tensor,alpha\na.weight," + b"9" * 5000,
    "null.csv": b"tensor,alpha\na.weight\n",
    "twice.csv": b"tensor,alpha,alpha\na.weight,1,1\n",
    "text.csv": b"tensor,alpha\na.weight,seven\n",
    "bytes.csv": b"tensor,alpha\n\xff,1\n",
    "binary.imatrix": b"\x01\0\0\0\xff\xff\xff\xff",
    "huge.imatrix": b"\x01\0\0\0\x01\0\0\0a\xff\xff\xff\x7f\xff\xff\xff\x7f",
    "magic.gguf": b"GGUF" + b"\xff" * 20,
}


@pytest.mark.parametrize("name", SENSITIVITIES)
def test_sensitivities_that_are_none_are_named(tmp_path, name):
    (tmp_path / name).write_bytes(SENSITIVITIES[name])
    with pytest.raises(qv.QuantVizError):
        alphas(tmp_path / name, Offers.of(records()))
