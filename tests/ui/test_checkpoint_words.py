"""What the page of checkpoints says of rows and files, without the page."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import save_file

import quantviz as qv
from quantviz.checkpoints.model_map import read_model
from quantviz.checkpoints.results.rows import ResultRow
from quantviz.text import text
from quantviz.ui.checkpoints import answer, reading
from quantviz.ui.checkpoints.allocating import _sensitivities
from quantviz.ui.checkpoints.page import _frame
from quantviz.ui.checkpoints.state import CheckpointsState
from quantviz.ui.shell import words


@pytest.mark.parametrize(
    ("name", "shown"),
    [("0.weight", "0.weight"), ("fc1.weight", "fc1"), ("model.layers.0.up.weight", "layers.0.up")],
)
def test_a_name_of_the_worst_has_letters(name, shown):
    assert answer._short(name) == shown


def test_weights_without_a_number_are_counted_in_the_first_line(monkeypatch):
    monkeypatch.setattr(words, "language", lambda: "en")
    monkeypatch.setattr(answer, "language", lambda: "en")
    numbers = {"sqnr_db": 20.0, "effective_bits": 4.5, "peak_rms": 5.0, "kurtosis": 3.0, "nan": 0, "inf": 0}
    numbers |= {"zeroed_share": 0.0, "clipped_share": 0.0}
    rows = [
        ResultRow(f"{k}", "q4_k", status, file="f", numbers=numbers)
        for k, status in enumerate(("ok", "refused", "problem", "left_aside"))
    ]
    listed = [(f"{k}", (8, 8), "F32", "f") for k in range(4)]
    said = answer._sentence(read_model(listed, rows, ["q4_k"]), "q4_k")
    assert "2 of 3 weights have no number" in said
    assert "no number" not in answer._sentence(read_model(listed[:1], rows[:1], ["q4_k"]), "q4_k")


def test_what_an_error_weighs_is_read_from_a_file_and_named():
    def uploaded(text):
        return SimpleNamespace(name="../weights <b>.csv", getvalue=text.encode)

    table = {"tensor": ["a", "b"], "recipe": ["int4", "int4"], "bits": [1, 1], "cost": [1.0, 1.0]}
    assert _sensitivities(uploaded("tensor,alpha\na,2.5\n"), table) == {"a": 2.5}
    with pytest.raises(qv.QuantVizError) as refused:
        _sensitivities(uploaded("name,weight\na,2.5\n"), table)
    assert "weights" in str(refused.value)
    assert "/tmp" not in str(refused.value)


def test_the_table_of_an_audit_begins_with_what_was_not_read_and_the_lowest_sqnr():
    rows = [dict.fromkeys(("original", "reason", "type"))] * 4
    became = (("a", "equal", None), ("b", "compared", 30.0), ("c", "compared", 12.0), ("d", "not_read", None))
    rows = [
        row | {"tensor": name, "coverage": coverage, "sqnr_db": db}
        for row, (name, coverage, db) in zip(rows, became, strict=True)
    ]
    assert list(_frame(rows)[text("checkpoints.audit.columns.tensor", "en")]) == ["d", "c", "b", "a"]


def test_headers_are_read_again_when_a_file_has_changed_and_what_goes_meanwhile_is_a_sentence(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("QUANTVIZ_DATA_DIR", str(tmp_path))
    file, beside = tmp_path / "model.safetensors", tmp_path / "beside"
    beside.write_bytes(b"")
    state = CheckpointsState("model.safetensors", recipes=("int4_g128",))
    # Of the same length: only the time tells.
    for name in ("a.weight", "b.weight"):
        save_file({name: torch.ones(4, 128)}, file)
        assert [each.name for each in reading.look_at_headers(state).tensors] == [name]

    looked_at = Path.stat

    def gone(path, **options):
        if path.name == "beside":
            raise FileNotFoundError(2, "No such file or directory", str(path))
        return looked_at(path, **options)

    before = reading._mark_of(file)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "stat", gone)
        assert reading._mark_of(file) == tuple(each for each in before if each[0] != "beside")
    with pytest.raises(qv.QuantVizError, match="cannot be read"):
        reading._mark_of(tmp_path / "folder" / "model.safetensors")
