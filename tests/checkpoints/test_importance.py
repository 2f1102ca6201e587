"""llama.cpp's importance matrix in a scan: by either names, for each expert, and for recipes that heed it."""

import os

import numpy as np
import pytest
import safetensors.torch
import torch
from click.testing import CliRunner

import quantviz as qv
from quantviz.checkpoints.results.typed_values import IMPORTANCE_BYTES
from quantviz.checkpoints.scan import reading, tasks
from quantviz.checkpoints.scan.importance import by_tensor, importances, importances_in
from quantviz.cli import quantviz
from quantviz.errors import QuantVizError
from quantviz.text import text
from tests.helpers.drawn import normal as values
from tests.helpers.importance_file import write_dat

#: Columns that divide into blocks of 256 and of 32.
COLUMNS = 256
OURS = {
    "blk.0.ffn_up.weight": "model.layers.0.mlp.up_proj.weight",
    "blk.1.ffn_up.weight": "model.layers.1.mlp.up_proj.weight",
    "token_embd.weight": "model.embed_tokens.weight",
}


def importance(seed, *experts):
    """Return mean squares of columns, some of which are loud."""
    return torch.rand(*experts, COLUMNS, generator=torch.Generator().manual_seed(seed)) ** 4


def write_gguf(path, weights, counts):
    """Write mean squares (experts, columns) in llama.cpp's newer form, with how much each was seen."""
    gguf = pytest.importorskip("gguf")
    writer = gguf.GGUFWriter(path, "")
    writer.add_string("general.type", "imatrix")
    for name, own in weights.items():
        seen = np.array(counts[name], np.float32)[:, None]
        writer.add_tensor(f"{name}.in_sum2", np.ascontiguousarray(own.numpy() * seen))
        writer.add_tensor(f"{name}.counts", seen)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def numbers_of(table):
    return {(row.tensor, row.recipe): row.sqnr_db for row in table.itertuples()}


@pytest.mark.parametrize("own", [0, 1], ids=["llama.cpp", "hugging face"])
def test_recipes_that_heed_it_use_it_by_either_names(tmp_path, own):
    names = [pair[own] for pair in OURS.items()]
    weights = {name: values(32, COLUMNS, seed=seed) for seed, name in enumerate(names)}
    safetensors.torch.save_file(weights, tmp_path / "m.safetensors")
    matrix = {name: importance(seed) for seed, name in enumerate([*OURS][:2])}
    file = write_dat(tmp_path / "imatrix.dat", matrix)
    results = tmp_path / "r.sqlite"
    recipes = ("q4_k", "q4_0", "q8_0")
    plain = numbers_of(qv.scan(tmp_path / "m.safetensors", recipes, results=results))
    found = qv.scan(tmp_path / "m.safetensors", recipes, imatrix=file, results=results)
    for seed, (name, x) in enumerate(weights.items()):
        columns = [*matrix.values()][seed] if seed < 2 else None
        for recipe in recipes:
            heeds = columns is not None and recipe != "q8_0"
            expected = qv.measure(x, recipe, importance=columns if heeds else None).metrics["sqnr_db"]
            assert numbers_of(found)[name, recipe] == pytest.approx(expected, rel=1e-6)
            assert (numbers_of(found)[name, recipe] != plain[name, recipe]) == heeds
    used = {(row.tensor, row.recipe) for row in found.itertuples() if row.importance}
    assert used == {(name, recipe) for name in names[:2] for recipe in recipes[:2]}
    said = " ".join(found.attrs["notes"])
    assert text("notes.checkpoint.imatrix_used", file="imatrix.dat", count=2, of=3) in said
    page = qv.report(found)
    for told in (names[2], "q8_0", "imatrix.dat"):
        assert told in said
        assert told in page
    # Both ways are kept beside each other, and neither is measured again.
    again = qv.scan(tmp_path / "m.safetensors", recipes, results=results)
    assert numbers_of(again) == plain


def test_each_expert_has_its_own(tmp_path, monkeypatch):
    """One that no text came to counts all columns alike; stacked, in bands, and one by one it is the same."""
    stack, name = values(3, 4, COLUMNS), "blk.0.ffn_up_exps.weight"
    matrix = importance(1, 3)
    file = write_gguf(tmp_path / "imatrix.gguf", {name: matrix}, {name: [5, 0, 7]})
    columns = [matrix[0], torch.ones(COLUMNS), matrix[2]]
    errors = [
        qv.quantize(x, "q4_k", importance=own).error.double().square().sum()
        for x, own in zip(stack, columns, strict=True)
    ]
    expected = float(10 * torch.log10(stack.double().square().sum() / sum(errors)))
    safetensors.torch.save_file({name: stack}, tmp_path / "stack.safetensors")
    one_by_one = {f"model.layers.0.mlp.experts.{k}.up_proj.weight": x.clone() for k, x in enumerate(stack)}
    safetensors.torch.save_file(one_by_one, tmp_path / "apart.safetensors")

    def scanned(file_name, results):
        recipes = ["q4_k", "q8_0"]
        return qv.scan(tmp_path / file_name, recipes, imatrix=file, results=tmp_path / results)

    found = numbers_of(scanned("stack.safetensors", "a"))
    assert found[name, "q4_k"] == pytest.approx(expected, rel=1e-6)
    apart = scanned("apart.safetensors", "b")
    for k, (other, x) in enumerate(one_by_one.items()):
        own = qv.measure(x, "q4_k", importance=columns[k]).metrics["sqnr_db"]
        assert numbers_of(apart)[other, "q4_k"] == pytest.approx(own, rel=1e-6)
    # A tensor that is too large to be held is measured in bands, each of them an expert.
    monkeypatch.setattr(reading, "MOST_LOADED", 1)
    monkeypatch.setattr(tasks, "BAND", COLUMNS * 2)
    in_bands = numbers_of(scanned("stack.safetensors", "c"))
    assert in_bands == pytest.approx(found, rel=1e-6)


def test_what_does_not_fit_is_told(tmp_path):
    name = "blk.0.ffn_up.weight"
    safetensors.torch.save_file({name: values(8, COLUMNS)}, tmp_path / "m.safetensors")
    scan = {"results": tmp_path / "r.sqlite", "recipes": "q4_k"}
    others = write_dat(tmp_path / "others.dat", {"blk.7.ffn_up.weight": importance(0)})
    with pytest.raises(QuantVizError, match=r"blk\.7\.ffn_up") as error:
        qv.scan(tmp_path / "m.safetensors", imatrix=others, **scan)
    assert error.value.key == "checkpoint.imatrix_of_others"
    short = write_dat(tmp_path / "short.dat", {name: importance(0)[:32]})
    found = qv.scan(tmp_path / "m.safetensors", imatrix=short, **scan)
    assert found.status.tolist() == ["problem"]
    assert str(COLUMNS) in found.reason[0]
    with pytest.raises(QuantVizError) as error:
        qv.scan(tmp_path / "m.safetensors", imatrix=tmp_path / "m.safetensors", **scan)
    assert error.value.key == "allocate.no_importance"


def test_a_matrix_is_a_plain_file_of_bounded_size(tmp_path):
    large, pipe = tmp_path / "large.dat", tmp_path / "pipe"
    with large.open("wb") as file:
        file.truncate(IMPORTANCE_BYTES + 1)
    os.mkfifo(pipe)
    for path, key in ((large, "importance_too_large"), (pipe, "no_importance"), (tmp_path, "cannot_read")):
        with pytest.raises(QuantVizError) as caught:
            importances(path)
        assert caught.value.key == f"allocate.{key}"


def test_the_content_of_an_upload_is_read_as_a_file_of_either_form_is(tmp_path):
    weights = {"blk.0.ffn_up.weight": importance(1, 1), "blk.1.ffn_up.weight": importance(2, 1)}
    dat = write_dat(tmp_path / "i.dat", weights)
    gguf = write_gguf(tmp_path / "i.gguf", weights, {name: [4] for name in weights})
    for path in (dat, gguf):
        found = importances_in(path.read_bytes(), path.name)
        assert found == importances(path)
        assert set(found) == set(weights)
    with pytest.raises(QuantVizError) as error:
        importances_in(b"\x93NUMPY", "x.npy")
    assert error.value.key == "allocate.no_importance"


def test_the_command_says_what_had_none(tmp_path):
    names = [*OURS.values()]
    weights = {name: values(8, COLUMNS, seed=seed) for seed, name in enumerate(names)}
    safetensors.torch.save_file(weights, tmp_path / "m.safetensors")
    file = write_dat(tmp_path / "i.dat", {"blk.0.ffn_up.weight": importance(0)})
    asked = ["scan", str(tmp_path / "m.safetensors"), "-r", "q4_k", "--results", str(tmp_path / "r")]
    ran = CliRunner().invoke(quantviz, [*asked, "--imatrix", str(file)])
    assert ran.exit_code == 0, ran.output
    for said in (text("notes.checkpoint.imatrix_used", file="i.dat", count=1, of=3), *names[1:]):
        assert said in ran.stderr
    assert set(by_tensor(importances(file), names)) == {names[0]}
