"""Whatever is damaged or missing: a file that a message cites is there, or the message says it is not."""

import json
import os
import re

import pytest
import torch
from safetensors.torch import save_file

from quantviz.checkpoints.model.opening import open_model
from quantviz.errors import QuantVizError
from tests.helpers.gguf_file import Entry, gguf_file, pair

#: Sentences that say of files that they are not there, or are to be made.
ABSENT = {"file.missing": ("file",), "layouts.apart_missing": ("file",), "file.raw_part": ("whole", "target")}
#: Names of files in a sentence, or the beginning of several.
CITED = re.compile(r"[\w/][\w./-]*\.(?:json|safetensors|gguf|pt)(?:\.\w+)?\*?")


def x(seed=0):
    return torch.randn(8, 32, generator=torch.Generator().manual_seed(seed))


def sharded(folder):
    places = {}
    for k in (1, 2):
        file = f"model-0000{k}-of-00002.safetensors"
        codes = x(k).mul(100).to(torch.float8_e4m3fn)
        tensors = {f"layers.{k}.q.weight": codes, f"layers.{3 - k}.q.weight_scale": torch.ones(8, 1)}
        save_file(tensors, folder / file)
        places |= dict.fromkeys(tensors, file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))
    (folder / "config.json").write_text(json.dumps({"quantization_config": {"quant_method": "fp8"}}))


def numbered(folder):
    for k in (1, 2, 3):
        save_file({f"layers.{k}.weight": x(k)}, folder / f"model-0000{k}-of-00003.safetensors")


def twice(folder):
    for k in (1, 2):
        save_file({"layers.1.weight": x(k)}, folder / f"{k}.safetensors")


def parts(folder):
    uint16 = 2
    for k in range(3):
        pairs = [
            pair(f"split.{key}", uint16, n.to_bytes(2, "little")) for key, n in (("no", k), ("count", 3))
        ]
        entry = Entry(f"{k}.weight", (32, 8), 0, bytes(1024))
        (folder / f"my_{k}.gguf").write_bytes(gguf_file([entry], pairs))


def ranks(folder):
    for k in range(3):
        (folder / f"mp_rank_0{k}").mkdir()
        torch.save({"layers.0.mlp.up_proj.weight": x(k)}, folder / f"mp_rank_0{k}" / "model.pt")


def pieces(folder):
    save_file({"a.weight": x()}, folder / "model.gguf")
    whole = (folder / "model.gguf").read_bytes()
    (folder / "model.gguf").unlink()
    for k in (1, 2, 3):
        (folder / f"model.gguf.part{k}of3").write_bytes(whole[(k - 1) * 400 : k * 400])


def adapter(folder):
    (folder / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "m"}))
    save_file({"q.lora_A.weight": x()}, folder / "adapter_model.safetensors")


def pipeline(folder):
    (folder / "model_index.json").write_text(json.dumps({"unet": ["d", "U"], "vae": ["d", "V"]}))
    for each in ("unet", "vae"):
        (folder / each).mkdir()
        save_file({"a.weight": x()}, folder / each / "diffusion_pytorch_model.safetensors")


def cache(folder):
    for each in ("blobs", "snapshots/0a1b", "snapshots/2c3d"):
        (folder / each).mkdir(parents=True)
    for k, each in enumerate(("0a1b", "2c3d")):
        save_file({"a.weight": x(k)}, folder / "blobs" / each)
        (folder / "snapshots" / each / "model.safetensors").symlink_to(f"../../blobs/{each}")


BASES = (sharded, numbered, twice, parts, ranks, pieces, adapter, pipeline, cache)


def removed(file):
    file.unlink()


def cut(file):
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def emptied(file):
    file.write_bytes(b"")


def dangling(file):
    file.unlink()
    file.symlink_to("nowhere")


def messages(path):
    """Yield every error and note about a checkpoint."""
    try:
        with open_model(path) as model:
            yield from (each.reason for each in (*model.lost, *model.aside, *model.strays))
            yield from (problem for _, problem in model.unread.values())
            tensors = model.tensors
            yield from (each.problem for each in tensors.weights.values() if each.problem)
            yield from (p for name in tensors.file.names if (p := tensors.file.info(name).problem))
    except QuantVizError as error:
        yield error


def cited(found):
    """Yield the files and folders that a message cites as being there, also in its own words."""
    absent = [str(found.params[name]) for name in ABSENT.get(found.key, ())]
    for name in ("folder", "folders"):
        yield from re.findall(r"[^,']+(?<! )", str(found.params.get(name, "")).replace(", ", ","))
    yield from (each for each in CITED.findall(found.message("en")) if each not in absent)


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("damage", [removed, cut, emptied, dangling])
def test_every_file_that_a_message_cites_is_there(tmp_path, base, damage):
    own = tmp_path / "own"
    own.mkdir()
    base(own)
    files = sorted(each.relative_to(own) for each in own.rglob("*") if each.is_file())
    seen = 0
    for number, file in enumerate(files):
        folder = tmp_path / str(number)
        folder.mkdir()
        base(folder)
        damage(folder / file)
        left = [each for each in folder.rglob("*") if not each.is_dir()]
        there = [place for place in (folder, *folder.rglob("*")) if place.exists()]
        names = {name for place in there for name in (place.name, str(place))}
        for path in (folder, *left):
            for found in messages(path):
                seen += 1
                gone = [
                    each
                    for each in cited(found)
                    if each not in names and not list(folder.glob(each.lstrip("/")))
                ]
                assert not gone, (os.fspath(path), str(found), found.params)
    # Of two files with the same tensors one alone is a model.
    assert seen or (base, damage) == (twice, removed)
