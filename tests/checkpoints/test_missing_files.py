"""What is missing counts with the bytes that are told of it, or its share is unknown; no file is a weight."""

import json
import math

import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import save_file

import quantviz as qv
from quantviz.checkpoints.model.account import Account
from quantviz.checkpoints.model.coverage_words import coverage_of_scan
from quantviz.checkpoints.scan.listing import list_checkpoint
from quantviz.cli import quantviz
from quantviz.errors import QuantVizError
from quantviz.sources.files import open_tensors
from quantviz.text import languages
from tests.helpers.gguf_file import Entry, gguf_file, pair

SHARDS = {
    f"model-{k:05}-of-00003.safetensors": {
        f"layers.{k}.q.weight": torch.full((8, 32), float(k)),
        f"layers.{k}.norm.weight": torch.ones(32),
    }
    for k in (1, 2, 3)
}
UINT16, INT32 = 2, 5
SIZE = 4 * (8 * 32 + 32)


def write_shards(folder, *, told, index=True):
    for name, tensors in SHARDS.items():
        save_file(tensors, folder / name)
    places = {tensor: name for name, tensors in SHARDS.items() for tensor in tensors}
    metadata = {"total_size": told} if told else {}
    if index:
        text = json.dumps({"metadata": metadata, "weight_map": places})
        (folder / "model.safetensors.index.json").write_text(text)
    return [folder / name for name in SHARDS]


def sentence(account):
    for language in languages():
        assert coverage_of_scan(account).message(language)
    return coverage_of_scan(account).message()


@pytest.mark.parametrize("lost", [(0,), (0, 2)])
@pytest.mark.parametrize("told", [3 * SIZE, None])
@pytest.mark.parametrize("how", ["missing", "damaged"])
def test_a_shard_counts_with_the_bytes_that_the_index_tells(tmp_path, lost, told, how):
    files = write_shards(tmp_path, told=told)
    for k in lost:
        files[k].unlink()
        if how == "damaged":
            files[k].write_bytes(b"\x08")
    account = list_checkpoint(tmp_path).account
    coverage = account.coverage("scanned")
    # The index names the weights; the norms are none.
    assert coverage.not_read.weights == len(lost)
    assert coverage.whole.weights == 3
    assert math.isnan(coverage.share("not_read", "elements"))
    share = coverage.share("not_read", "size")
    assert share == pytest.approx(len(lost) / 3) if told else math.isnan(share)
    known = f"{100 * len(lost) / 3:.1f} % of the bytes" if told else "share unknown"
    assert sentence(account).startswith(f"{len(lost)} of 3 weights w")
    assert f"({known})" in sentence(account)
    for name, of_file in SHARDS.items():
        lines = [each for each in account.tensors if each.file == name]
        assert [each.tensor for each in lines if each.tensor] == list(of_file)
        assert sum(not each.tensor for each in lines) == (tmp_path / name in [files[k] for k in lost])


def test_a_missing_number_is_a_file_and_not_a_weight(tmp_path):
    files = write_shards(tmp_path, told=None, index=False)
    files[1].unlink()
    account = list_checkpoint(tmp_path).account
    coverage = account.coverage("scanned")
    assert (coverage.not_read.weights, coverage.not_read.tensors, coverage.not_read.uncounted) == (0, 0, 1)
    assert sentence(account).startswith(f"1 file of the model was not read (share unknown): {files[1].name}.")
    original = tmp_path / "o"
    original.mkdir()
    write_shards(original, told=None, index=False)
    audit = qv.audit(tmp_path, original)
    assert not audit.is_complete
    assert audit.verdict.startswith("1 of 3 weights were not compared (share unknown): layers.2.q.weight.")


def test_an_original_that_lacks_a_file_is_compared_as_far_as_it_is(tmp_path):
    """Also where results are kept, whose keys name the partner's tensors."""
    for index in (True, False):
        folders = [tmp_path / f"{name}{index}" for name in ("whole", "lacking")]
        for folder in folders:
            folder.mkdir()
            files = write_shards(folder, told=None, index=index)
        files[1].unlink()
        for pair_of in (folders, folders[::-1], folders[1:] * 2):
            arguments = [*map(str, pair_of), "--results", str(tmp_path / "r"), "--no-progress"]
            done = CliRunner().invoke(quantviz, ["compare", *arguments])
            assert (done.exit_code, "There is no file" in done.output) == (1, True), done.output


def test_a_rank_that_lacks_is_a_file_of_the_model(tmp_path):
    """By the numbers before it; an adapter's rank is none."""
    x = torch.randn(8, 32)
    for rank in (0, 1, 3):
        torch.save({"layers.0.mlp.up_proj.weight": x + rank}, tmp_path / f"mp_rank_{rank:02}_model_states.pt")
    account = list_checkpoint(tmp_path).account
    assert "(share unknown): mp_rank_02_model_states.pt." in sentence(account)
    alone = tmp_path / "alone"
    alone.mkdir()
    torch.save({"layers.0.attention.wq.weight": x}, alone / "consolidated.01.pth")
    assert "(share unknown): consolidated.00.pth." in sentence(list_checkpoint(alone).account)
    (alone / "consolidated.01.pth").rename(alone / "style_rank_32.pth")
    assert list_checkpoint(alone).account.is_complete


def test_one_file_of_very_many_is_a_part(tmp_path):
    save_file({"a.weight": torch.ones(8, 32)}, tmp_path / "model-00007-of-00163.safetensors")
    account = list_checkpoint(tmp_path).account
    assert sentence(account).startswith("162 files of the model were not read (share unknown): ")


def part(number, count, *names, tensors=3):
    pairs = [pair("split.no", UINT16, number.to_bytes(2, "little"))]
    pairs += [pair("split.count", UINT16, count.to_bytes(2, "little"))]
    pairs += [pair("split.tensors.count", INT32, tensors.to_bytes(4, "little"))] if tensors else []
    return gguf_file([Entry(name, (32, 8), 0, bytes(1024)) for name in names], pairs)


@pytest.mark.parametrize("tensors", [3, None])
def test_a_part_of_a_gguf_tells_of_the_others_under_any_name(tmp_path, tensors):
    for number, name in enumerate("abc"):
        (tmp_path / f"my {name}.gguf").write_bytes(part(number, 3, f"{name}.weight", tensors=tensors))
    # All of them are one model.
    listing = list_checkpoint(tmp_path)
    assert [entry.name for entry in listing.entries] == ["a.weight", "b.weight", "c.weight"]
    assert listing.account.is_complete
    account = list_checkpoint(tmp_path / "my b.gguf").account
    assert sentence(account).startswith(
        "2 files of the model were not read (share unknown): my b.gguf (1/3), my b.gguf (3/3). "
        "The file 'my b.gguf' says that it is part 2 of 3"
    )
    assert ("with 3 tensors in all" in sentence(account)) == bool(tensors)
    done = CliRunner().invoke(
        quantviz, ["scan", str(tmp_path / "my b.gguf"), "-r", "int4_g32", "--results", str(tmp_path / "r")]
    )
    assert done.exit_code == 1
    # One tensor of it can be measured all the same.
    measured = CliRunner().invoke(
        quantviz, ["measure", str(tmp_path / "my b.gguf"), "b.weight", "-s", "int4_g32"]
    )
    assert measured.exit_code == 0, measured.output
    (tmp_path / "my c.gguf").unlink()
    account = list_checkpoint(tmp_path).account
    assert [each.file for each in account.of("not_read")] == ["my a.gguf (3/3)"]
    # Another model beside it is still another model.
    (tmp_path / "other.gguf").write_bytes(gguf_file([Entry("x.weight", (32, 8), 0, bytes(1024))]))
    with pytest.raises(QuantVizError, match="is not one checkpoint"):
        list_checkpoint(tmp_path)


@pytest.mark.parametrize(
    ("first", "second", "joined"),
    [
        ("m.Q4_0.gguf.part1of2", "m.Q4_0.gguf.part2of2", "m.Q4_0.gguf.part* | sort -V) > m.Q4_0.gguf"),
        ("m.gguf-split-a", "m.gguf-split-b", "m.gguf-split-* | sort -V) > m.gguf"),
        ("m.gguf.part1", "m.gguf.part2", "m.gguf.part* | sort -V) > m.gguf"),
        ("m.gguf.partaa", "m.gguf.partab", "m.gguf.part* | sort -V) > m.gguf"),
        ("m.gguf_part_01-of-02", "m.gguf_part_02-of-02", "m.gguf_part_* | sort -V) > m.gguf"),
        ("my model.gguf.001", "my model.gguf.002", "'my model.gguf.'* | sort -V) > 'my model.gguf'"),
    ],
)
def test_a_piece_of_a_file_is_to_be_joined_with_the_others(tmp_path, first, second, joined):
    content = gguf_file([Entry("a.weight", (32, 64), 0, bytes(8192))])
    (tmp_path / first).write_bytes(content[:5000])
    (tmp_path / second).write_bytes(content[5000:])
    for name in (first, second, ""):
        done = CliRunner().invoke(
            quantviz, ["scan", str(tmp_path / name), "-r", "int4_g32", "--results", str(tmp_path / "r")]
        )
        assert done.exit_code
        assert f"cat $(ls {joined}" in done.output
        assert "ownload" not in done.output


def test_a_name_alone_makes_no_piece(tmp_path):
    (tmp_path / "m.gguf.part1").write_bytes(gguf_file([Entry("a.weight", (32, 8), 0, bytes(1024))]))
    with open_tensors(tmp_path / "m.gguf.part1") as catalog:
        assert catalog.names == ("a.weight",)


def test_nothing_missing_is_all():
    assert sentence(Account()).startswith("Everything was read")
