"""Files as people have them: tied heads, marks of a quantizer, five axes, rows in an engine's order."""

import json

import gguf
import pytest
import torch
from click.testing import CliRunner

import quantviz as qv
from quantviz.checkpoints.audit.originals import IN_PLACE, REORDERED, reordered_rows
from quantviz.checkpoints.model.opening import open_model
from quantviz.cli import quantviz
from quantviz.text import languages
from tests.helpers import layouts
from tests.helpers.drawn import normal as values
from tests.helpers.twins import write_gguf


def audited(quantized, original):
    audit = qv.audit(quantized, original)
    for language in languages():
        assert all(audit.messages(language))
    return audit


def int8(name, x):
    scale = x.abs().amax(1, keepdim=True) / 127
    return {name: torch.round(x / scale).to(torch.int8), f"{name}_scale": scale}


def written(folder, tensors, config=None):
    folder.mkdir(exist_ok=True)
    if config is not None:
        (folder / "config.json").write_text(json.dumps(config))
    return layouts.write(folder / "model.safetensors", tensors)


# ---- the order of q's and k's rows ---------------------------------------------------------------


def reordered(tensors, order):
    """The tensors with the rows of q and k in another order; `order` returns it for a converter's."""
    heads = {"q_proj": 4, "k_proj": 2}

    def turned(name, x):
        count = next((heads[each] for each in heads if each in name), 0)
        return x[order(reordered_rows(len(x), count))] if count else x

    return {name: turned(name, x) for name, x in tensors.items()}


@pytest.mark.parametrize("kind", [gguf.GGMLQuantizationType.Q8_0, gguf.GGMLQuantizationType.F16])
@pytest.mark.parametrize(("architecture", "note"), [("llama", "not_permuted"), ("qwen3", "permuted")])
def test_rows_of_q_and_k_in_the_wrong_order_are_a_finding(tmp_path, architecture, note, kind):
    """That the other order fits is said; the numbers are those that the engine would have."""
    tensors = layouts.llama()
    original = layouts.write(tmp_path / "model.safetensors", tensors)
    # Under "llama" the twin's writer reorders the rows: here they come out in place.
    wrong = reordered(tensors, torch.argsort if architecture == "llama" else lambda rows: rows)
    path = write_gguf(tmp_path / "x.gguf", wrong.items(), kind, architecture=architecture, heads=(4, 2))
    audit = audited(path, original)
    found = [each for each in audit.tensors if f"audit.{note}" in [done.key for done in each.done]]
    assert {each.original.rpartition("attn.")[2] for each in found} == {"q_proj.weight", "k_proj.weight"}
    assert {each.status for each in found} == {"not_same"}
    assert max(each.metrics["sqnr_db"] for each in found) < 3
    assert not audit.is_sound


def test_wrong_scales_hide_no_order(tmp_path):
    """Of q's rows and of a square weight that lies inputs by outputs, told beside the factor."""
    model = {"model.layers.0.self_attn.q_proj.weight": values(64, 64)}
    original = written(tmp_path / "a", model)
    right = reordered(model, lambda order: order)
    twenty = [(name, x * 20) for name, x in right.items()]
    eight_bits = gguf.GGMLQuantizationType.Q8_0
    write_gguf(tmp_path / "q.gguf", twenty, eight_bits, architecture="other", heads=(4, 2))
    turned = written(tmp_path / "b", int8("model.layers.0.self_attn.q_proj.weight", 20 * values(64, 64).T))
    for path in (tmp_path / "q.gguf", turned):
        (found,) = audited(path, original).tensors
        assert found.status == "rescaled"
        assert found.metrics["cosine"] > 0.99
        assert found.metrics["sqnr_db"] == pytest.approx(-25.6, abs=0.1)


@pytest.mark.parametrize("turned", ["q_proj", "up_proj"])
def test_a_weight_that_lies_otherwise_than_the_others_is_wrong(tmp_path, turned):
    """A square one and another; where all layers lie so, it is the library's way."""
    weights = {name: x for name, x in layouts.llama().items() if "_proj" in name}
    original = written(tmp_path / "a", weights)

    def of(turned):
        lying = {name: x.T if turned in name else x for name, x in weights.items()}
        made = [int8(name, x) for name, x in lying.items()]
        path = written(tmp_path / "b", {name: x for each in made for name, x in each.items()})
        return audited(path, original)

    audit = of(turned)
    wrong = {each.tensor for each in audit.tensors if each.status == "not_same"}
    assert wrong == {name for name in weights if turned in name}
    assert not audit.is_sound
    assert "Rows and columns are exchanged, unlike those of the other layers" in " ".join(audit.messages())
    assert of("_proj").is_sound


def test_metas_own_rows_are_in_place_in_a_gguf(tmp_path):
    """wq and wk of Meta's checkpoints lie as llama.cpp reads them."""
    tensors = layouts.llama()
    metas = {
        name.replace("self_attn.q_proj", "attention.wq").replace("self_attn.k_proj", "attention.wk"): x
        for name, x in tensors.items()
    }
    original = layouts.write(tmp_path / "consolidated.safetensors", metas)
    path = write_gguf(
        tmp_path / "x.gguf",
        reordered(tensors, torch.argsort).items(),
        gguf.GGMLQuantizationType.Q8_0,
        architecture="llama",
        heads=(4, 2),
    )
    assert audited(path, original).is_sound


def test_architectures_are_llama_cpps():
    assert not REORDERED & IN_PLACE
    assert set(gguf.MODEL_ARCH_NAMES.values()) >= REORDERED | IN_PLACE


# ---- partners -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "is_tied"),
    [
        ({"tie_word_embeddings": True}, True),
        ({"text_config": {"tie_word_embeddings": True}, "tie_word_embeddings": False}, True),
        ({}, True),
        ({"tie_word_embeddings": False}, False),
        (None, False),
    ],
)
def test_a_head_of_its_own_is_compared_with_the_embedding_it_was_tied_to(tmp_path, config, is_tied):
    embedding, up = values(96, 32), values(64, 32, seed=1)
    names = "model.embed_tokens.weight", "model.layers.0.mlp.up_proj.weight", "lm_head.weight"
    original = written(tmp_path / "a", {names[0]: embedding, names[1]: up}, config)
    own = {names[0]: embedding, **int8(names[1], up), **int8(names[2], embedding)}
    audit = audited(written(tmp_path / "b", own), original)
    head = next(each for each in audit.tensors if each.tensor == "lm_head.weight")
    assert (head.status, head.matched, head.original) == (
        ("ok", "tied", names[0]) if is_tied else ("unmatched", "", "")
    )
    assert audit.is_sound is is_tied
    assert any("embed_tokens" in sentence for sentence in audit.messages()) is is_tied


def test_marks_and_scales_of_inputs_need_no_partner(tmp_path):
    x = values(32, 32)
    scale = x.abs().max() / 448
    codes = {
        "a.weight": (x / scale).to(torch.float8_e4m3fn),
        "a.scale_weight": scale,
        "a.scale_input": torch.ones(()),
    }
    marks = {"scaled_fp8": torch.zeros(2, dtype=torch.float8_e4m3fn), "a.k_scale": torch.ones(())}
    original = written(tmp_path / "a", {"a.weight": x})
    audit = audited(written(tmp_path / "b", codes | marks), original)
    assert audit.is_sound, audit.messages()
    scan = CliRunner().invoke(quantviz, ["scan", str(tmp_path / "b"), "-r", "int8_per_row", "--no-progress"])
    assert scan.exit_code == 0, scan.output
    aside = {each.tensor for each in audit.account.of("left_aside")}
    assert aside == {"a.scale_input", "scaled_fp8", "a.k_scale"}


# ---- convolutions of five axes ------------------------------------------------------------------


def test_a_convolution_of_five_axes_is_outputs_by_the_rest(tmp_path):
    x = values(8, 3, 2, 4, 4)
    path = written(tmp_path, {"patch_embed.proj.weight": x})
    rows = qv.scan(path, ["int8_per_row"])
    right = qv.metrics(qv.quantize(x.reshape(8, -1), qv.RECIPES["int8_per_row"]))
    assert list(rows["sqnr_db"]) == [pytest.approx(right["sqnr_db"])]
    as_matrix = written(tmp_path / "b", int8("patch_embed.proj.weight", x.reshape(8, -1)))
    audit = audited(as_matrix, path)
    assert audit.tensors[0].metrics["sqnr_db"] == pytest.approx(right["sqnr_db"])
    assert audited(written(tmp_path / "c", {"patch_embed.proj.weight": x}), path).tensors[0].status == "same"


@pytest.mark.parametrize("kernel", [(5,), (3, 3), (3, 3, 3)])
def test_codes_of_a_convolution_are_outputs_by_the_rest(tmp_path, kernel):
    """int8 and FP8, however many axes of one the scales have."""
    x = values(16, 4, *kernel)
    rows = x.flatten(1)
    original = written(tmp_path / "a", {"conv.weight": x})
    codes, scale = int8("w", rows).values()
    right = 10 * torch.log10(rows.square().sum() / (codes * scale - rows).square().sum())
    for of_scale in ((16,), (16, 1), (16, *[1] * (len(kernel) + 1))):
        tensors = {"conv.weight": codes.reshape(x.shape), "conv.weight_scale": scale.reshape(of_scale)}
        (found,) = audited(written(tmp_path / "b", tensors), original).tensors
        assert (found.tensor, found.status) == ("conv.weight", "ok")
        assert found.metrics["sqnr_db"] == pytest.approx(float(right), abs=1e-3)
    one = x.abs().max() / 448
    tensors = {"conv.weight": (x / one).to(torch.float8_e4m3fn), "conv.weight_scale": one}
    (found,) = audited(written(tmp_path / "b", tensors), original).tensors
    assert found.metrics["sqnr_db"] > 25


# ---- a trainer's file ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("optimizer", "moments"),
    [
        ("optimizer_states", ("exp_avg", "exp_avg_sq")),
        ("optimizer", ("momentum_buffer",)),
        ("optim_g", ("state1", "qmap1", "absmax1")),
        ("opt_d", ("exp_avg", "max_exp_avg_sq")),
    ],
)
def test_moments_of_an_optimizer_are_left_aside_by_name(tmp_path, optimizer, moments):
    """Of Lightning's .ckpt and of a .pth.tar most tensors are no weights."""
    model = {"fc.weight": values(64, 32), "head.weight": values(48, 64, seed=1), "fc.bias": values(64)}
    codes = {"state1": torch.ones(64, 32, dtype=torch.uint8)}
    state = {
        number: {"step": torch.tensor(3.0)} | {each: codes.get(each, values(*x.shape)) for each in moments}
        for number, x in enumerate(model.values())
    }
    own = {"state": state, "param_groups": [{"lr": 0.1, "params": [0, 1, 2]}]}
    path = tmp_path / "last.ckpt"
    torch.save({"state_dict": model, optimizer: [own], "best_acc1": torch.tensor(7.0)}, path)
    scanned = qv.scan(path, ["int8_per_row"])
    measured = scanned[scanned["status"] == "ok"]
    assert set(measured["tensor"]) == {"state_dict.fc.weight", "state_dict.head.weight"}
    notes = CliRunner().invoke(quantviz, ["scan", str(path), "-r", "int8_per_row", "--no-progress"])
    assert notes.exit_code == 0
    assert (
        f"{3 * (1 + len(moments)) + 1} tensors are the state of an optimizer" in notes.output + notes.stderr
    )
    written(tmp_path / "a", model)
    audit = audited(tmp_path / "a", path)
    assert {each.status for each in audit.tensors if each.tensor} == {"same"}
    assert audit.is_complete


# ---- files of ranks -----------------------------------------------------------------------------

ROWS, COLUMNS = 0, 1
#: The axis along which ranks share out each kind of layer in the model of `in_ranks`.
SHARED = {"q_proj": ROWS, "down_proj": COLUMNS, "up_proj": ROWS, "embed_tokens": ROWS}


def in_ranks(renamed=lambda name: name):
    """A model, and its pieces in two ranks; norms are whole in each."""
    model = {
        "embed_tokens.weight": values(96, 32),
        "layers.0.self_attn.q_proj.weight": values(64, 32, seed=1),
        "layers.0.self_attn.q_proj.bias": torch.zeros(64),
        "layers.0.mlp.up_proj.weight": values(48, 32, seed=2),
        "layers.0.mlp.down_proj.weight": values(32, 48, seed=3),
        "layers.0.mlp.down_proj.bias": values(32, seed=5),
        "layers.0.input_norm.weight": values(32, seed=4),
    }

    def piece(name, x, rank):
        axis = next((axis for kind, axis in SHARED.items() if kind in name), None)
        is_whole = axis is None or axis >= x.dim()
        return (x if is_whole else x.chunk(2, axis)[rank]).clone()

    ranks = [{renamed(name): piece(name, x, rank) for name, x in model.items()} for rank in (0, 1)]
    return {renamed(name): x for name, x in model.items()}, ranks


METAS = {"q_proj": "wq", "up_proj": "w1", "down_proj": "w2", "embed_tokens": "tok_embeddings"}
MEGATRONS = {
    **{"q_proj": "query_key_value", "up_proj": "dense_h_to_4h", "down_proj": "dense_4h_to_h"},
    "embed_tokens": "word_embeddings",
}


@pytest.mark.parametrize(
    ("file", "names"),
    [
        ("consolidated.{:02}.pth", METAS),
        ("mp_rank_{:02}/model_optim_rng.pt", MEGATRONS),
        ("mp_rank_{:02}_model_states.pt", MEGATRONS),
        ("tp_rank_{:02}_pp_rank_000/model_weights.ckpt", MEGATRONS),
        ("model-rank-{}-part-0.safetensors", {}),
        ("model{}-mp2.safetensors", {}),
        ("rank{}.safetensors", {}),
        ("pytorch_model-00001-TP-{:03}.safetensors", {}),
    ],
)
def test_pieces_of_weights_in_files_of_ranks_are_joined(tmp_path, file, names):
    def renamed(name):
        for old, new in names.items():
            name = name.replace(old, new)
        return name

    model, ranks = in_ranks(renamed)
    paths = [tmp_path / "r" / file.format(rank) for rank in (0, 1)]
    for path, tensors in zip(paths, ranks, strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".safetensors":
            layouts.write(path, tensors)
        else:
            torch.save({"module": tensors, "optimizer": {"state": {0: {"exp_avg": values(9, 9)}}}}, path)
    whole = written(tmp_path / "whole", model)
    for of_ranks in (tmp_path / "r", paths[1]):
        audit = audited(whole, of_ranks)
        assert {each.status for each in audit.tensors if each.tensor} == {"same"}, of_ranks
        assert audit.is_complete
        assert any("were joined of pieces in 2 files" in sentence for sentence in audit.messages())
    scanned = qv.scan(tmp_path / "r", ["int8_per_row"]).set_index("tensor")
    right = qv.scan(whole, ["int8_per_row"]).set_index("tensor")
    for name in right.index[right["status"] == "ok"]:
        found = scanned.loc[[each for each in scanned.index if each.endswith(name)]]
        assert list(found["sqnr_db"]) == [right.loc[name, "sqnr_db"]]


@pytest.mark.parametrize(
    ("file", "count", "lost"),
    [
        ("consolidated.{:02}.pth", 3, (1,)),
        ("mp_rank_{:02}/model_optim_rng.pt", 4, (0, 2)),
        ("model{}-mp4.safetensors", 4, (2, 3)),
        ("rank{}.safetensors", 3, (1,)),
    ],
)
def test_missing_ranks_are_counted(tmp_path, file, count, lost):
    there = [tmp_path / file.format(rank) for rank in range(count) if rank not in lost]
    for rank, path in enumerate(there):
        path.parent.mkdir(exist_ok=True)
        tensors = {"layers.0.mlp.up_proj.weight": values(8, 32, seed=rank)}
        layouts.write(path, tensors) if path.suffix == ".safetensors" else torch.save(tensors, path)
    for given in (tmp_path, there[0]):
        done = CliRunner().invoke(quantviz, ["scan", str(given), "-r", "int8_per_row", "--no-progress"])
        assert done.exit_code == 1
        for rank in lost:
            assert f"There is no file '{file.format(rank)}'" in done.output
    with open_model(tmp_path) as model:
        assert [each.name for each in model.lost] == [file.format(rank) for rank in lost]


def test_pieces_of_an_unknown_axis_are_named_and_windows_are_cut(tmp_path):
    model, ranks = in_ranks()
    for rank, tensors in enumerate(ranks):
        layouts.write(
            tmp_path / f"rank_{rank}.safetensors", tensors | {"mixer.weight": values(8, 8, seed=rank)}
        )
    result = CliRunner().invoke(quantviz, ["scan", str(tmp_path), "-r", "int8_per_row", "--no-progress"])
    assert result.exit_code == 1
    assert "'mixer.weight' is in pieces in the files of several ranks" in result.output
    assert "Keep one" not in result.output
    with open_model(tmp_path) as opened:
        down = opened.tensors.read("layers.0.mlp.down_proj.weight", (slice(3, 9), slice(20, 41, 3))).tensor
        assert torch.equal(down, model["layers.0.mlp.down_proj.weight"][3:9, 20:41:3])
        column = opened.tensors.read("layers.0.mlp.down_proj.weight", (slice(None), 30)).tensor
        assert torch.equal(column, model["layers.0.mlp.down_proj.weight"][:, 30])


# ---- folders that hold models -------------------------------------------------------------------


def test_a_cache_a_pipeline_and_an_adapter_name_the_way_out(tmp_path):
    x = {"a.weight": values(64, 32)}
    cache = tmp_path / "hub" / "models--org--name"
    snapshot = cache / "snapshots" / "0a1b"
    for folder in (snapshot, cache / "blobs", cache / "refs"):
        folder.mkdir(parents=True)
    layouts.write(cache / "blobs" / "c0ffee", x)
    (snapshot / "model.safetensors").symlink_to(cache / "blobs" / "c0ffee")
    pipeline = tmp_path / "pipeline"
    for part in ("unet", "vae"):
        (pipeline / part).mkdir(parents=True)
        layouts.write(pipeline / part / "diffusion_pytorch_model.safetensors", x)
    (pipeline / "model_index.json").write_text("{}")
    adapter = written(tmp_path / "adapter", {"q.lora_A.weight": values(4, 32)})
    adapter = adapter.rename(adapter.parent / "adapter_model.safetensors")
    (adapter.parent / "adapter_config.json").write_text("{}")
    for place, key, named in (
        (tmp_path / "hub", "folders", [snapshot]),
        (cache, "folders", [snapshot]),
        (cache / "blobs", "folders", [snapshot]),
        (pipeline, "pipeline", [pipeline / "unet", pipeline / "vae"]),
        (adapter.parent, "adapter", ["adapter_model.safetensors"]),
    ):
        with pytest.raises(qv.QuantVizError) as caught:
            qv.scan(place, ["int8_per_row"])
        assert caught.value.key == f"checkpoint.{key}"
        for language in languages():
            assert all(str(each) in caught.value.message(language) for each in named)
    # Each place that is named opens.
    for place in (snapshot, pipeline / "unet", adapter):
        assert list(qv.scan(place, ["int8_per_row"])["status"]) == ["ok"]
