"""Which tensors a scan measures, by an engine's profile or without one, and what it comes to as a gate."""

import json
import math
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
import safetensors.torch
import torch
from click.testing import CliRunner

import quantviz as qv
from quantviz.checkpoints.allocation.file_size import file_sizes
from quantviz.checkpoints.model.tensor_kinds import KINDS
from quantviz.checkpoints.profiles import PRESETS, PROFILES
from quantviz.checkpoints.profiles.presets import types_of
from quantviz.checkpoints.scan.listing import Entry, TensorListing
from quantviz.checkpoints.scan.recipes import recipe_id, recipes_named
from quantviz.checkpoints.scan.selection import QUANTIZED, Selection, selected
from quantviz.cli import quantviz
from quantviz.errors import QuantVizError
from quantviz.layers.captures import Captured, Layers
from quantviz.schemes.recipes import ALL_RECIPES
from quantviz.sources.files.gguf_blocks import BLOCK_TYPES
from quantviz.text import languages
from tests.helpers import ROOT
from tests.helpers.drawn import normal as values
from tests.helpers.importance_file import write_dat
from tests.helpers.twins import write_gptq

#: Rows of 96 divide into groups of 32, not into blocks of 256; rows of 256 into both.
NARROW, WIDE = 96, 256
#: So few that the reference measures all of them.
ROWS = 32


def bert():
    """Return a model as sentence transformers have it: of 9 matrices 6 are linear layers."""
    layer = "encoder.layer.0"
    shapes = {
        "embeddings.word_embeddings.weight": (16, NARROW),
        "embeddings.position_embeddings.weight": (8, NARROW),
        "embeddings.token_type_embeddings.weight": (2, NARROW),
        **{f"{layer}.attention.self.{part}.weight": (ROWS, NARROW) for part in ("query", "key", "value")},
        **{f"{layer}.attention.self.{part}.bias": (ROWS,) for part in ("query", "key", "value")},
        f"{layer}.attention.output.dense.weight": (ROWS, NARROW),
        f"{layer}.attention.output.dense.bias": (ROWS,),
        f"{layer}.attention.output.LayerNorm.weight": (ROWS,),
        f"{layer}.intermediate.dense.weight": (ROWS, NARROW),
        f"{layer}.output.dense.weight": (ROWS, WIDE),
    }
    return {name: values(*shape, seed=seed) for seed, (name, shape) in enumerate(shapes.items())}


@pytest.fixture
def file(tmp_path):
    safetensors.torch.save_file(bert(), tmp_path / "bert.safetensors")
    return tmp_path / "bert.safetensors"


@pytest.fixture
def scanned(file, tmp_path):
    """Return what scans this file, with one file of results."""
    return lambda *recipes, **how: qv.scan(file, recipes, results=tmp_path / "r.sqlite", **how)


@pytest.fixture
def command(file, tmp_path):
    """Return what runs the command on it."""

    def run(*arguments):
        asked = ["scan", str(file), "--results", str(tmp_path / "r.sqlite"), *arguments]
        return CliRunner().invoke(quantviz, asked)

    return run


def by_status(table):
    return {status: set(rows.tensor) for status, rows in table.groupby("status")}


def aside_of(table):
    return by_status(table).get("left_aside", set())


def test_what_no_engine_quantizes_is_left_aside(scanned):
    found = scanned("int4_g32")
    aside = {name for name, x in bert().items() if x.dim() == 1}
    aside |= {"embeddings.position_embeddings.weight", "embeddings.token_type_embeddings.weight"}
    assert by_status(found) == {"left_aside": aside, "ok": set(bert()) - aside}
    assert found.reason[found.status == "left_aside"].str.len().gt(10).all()
    # What is left aside is no choice of an allocation, and stays as it is stored.
    chosen = qv.allocate(found, bits_per_weight=20)
    assert set(chosen.choice) == set(bert()) - aside
    assert set(chosen.kept) == aside


def test_names_decide_where_somebody_names_them(scanned):
    named = scanned("int8_g32", include="*.bias")
    assert by_status(named)["ok"] == {name for name in bert() if name.endswith("bias")}
    fewer = scanned("int8_g32", exclude=["embeddings.*", "*.output.*"])
    left = {name for name, x in bert().items() if x.dim() == 2 and "embeddings" not in name}
    assert by_status(fewer)["ok"] == {name for name in left if ".output." not in name}
    both = scanned("int8_g32", include="*", exclude="*.bias")
    assert by_status(both) == {
        "ok": {name for name in bert() if not name.endswith("bias")},
        "left_aside": {name for name in bert() if name.endswith("bias")},
    }
    with pytest.raises(QuantVizError, match="nosuch"):
        scanned("int8_g32", include="nosuch*")
    with pytest.raises(QuantVizError, match=r"llama\.cpp"):
        scanned("int8_g32", engine="llama")


def test_a_gate_that_measured_nothing_does_not_pass(command):
    found = command("-r", "int8_per_row", "--exclude", "*", "--fail-under", "5")
    assert found.exit_code == 1
    assert "0 measured" in found.stderr
    assert command("-r", "int8_per_row", "--exclude", "*").exit_code == 0


def test_rows_at_which_a_tool_ends_with_an_error_are_refused(tmp_path):
    """torchao 0.18: "NVFP4 only supports weight shape with last 2 dims divisible by 16"."""
    tensors = {"a.q_proj.weight": values(32, 32), "lm_head.weight": values(24, 32)}
    safetensors.torch.save_file(tensors, tmp_path / "m.safetensors")
    how = {"recipes": ["nvfp4", "torchao_int8_per_row"], "results": tmp_path / "r.sqlite"}
    found = qv.scan(tmp_path / "m.safetensors", engine="torchao", **how).set_index(["tensor", "recipe"])
    assert found.status["lm_head.weight", "nvfp4"] == "refused"
    assert "(24, 32)" in found.reason["lm_head.weight", "nvfp4"]
    assert (found.status.drop(("lm_head.weight", "nvfp4")) == "ok").all()
    # The arithmetic itself takes them.
    assert (qv.scan(tmp_path / "m.safetensors", **how).status == "ok").all()


def test_a_file_of_vectors_alone_is_measured(tmp_path):
    safetensors.torch.save_file({"a": values(64)}, tmp_path / "v.safetensors")
    assert qv.scan(tmp_path / "v.safetensors", "int4_g32", results=tmp_path / "r").status.tolist() == ["ok"]


def test_llama_cpp_falls_back_to_the_type_that_fits(scanned):
    """As `tensor_type_fallback` has it: rows of 96 make Q4_K Q5_0 and Q6_K Q8_0."""
    found = scanned("q4_k", "q6_k", engine="llama.cpp")
    rows = found[found.status == "ok"].set_index(["tensor", "recipe"])
    used = {key: row.fallback or key[1] for key, row in rows.iterrows()}
    wide = "encoder.layer.0.output.dense.weight"
    assert used.pop((wide, "q4_k")) == "q4_k"
    assert used.pop((wide, "q6_k")) == "q6_k"
    assert {(recipe, own) for (_, recipe), own in used.items()} == {("q4_k", "q5_0"), ("q6_k", "q8_0")}
    name = "encoder.layer.0.attention.self.query.weight"
    wanted = qv.measure(bert()[name], "q5_0")
    assert rows.loc[name, "q4_k"].sqnr_db == pytest.approx(wanted.metrics["sqnr_db"])
    assert rows.loc[name, "q4_k"].bits == ROWS * NARROW // 32 * 22 * 8
    # Positions and token types stay, and the embedding does not.
    assert {name for name in aside_of(found) if "embeddings" in name} == {
        "embeddings.position_embeddings.weight",
        "embeddings.token_type_embeddings.weight",
    }


def test_a_row_that_no_type_fits_stays(tmp_path):
    safetensors.torch.save_file({"blk.0.attn_q.weight": values(8, 40)}, tmp_path / "m.safetensors")
    found = qv.scan(tmp_path / "m.safetensors", "q4_k", engine="llama.cpp", results=tmp_path / "r")
    assert found.status.tolist() == ["left_aside"]


def test_vllm_takes_linear_layers_alone(scanned):
    found = scanned("w4a16_g128", "ct_fp8_per_row", engine="vllm")
    assert set(found.tensor) - aside_of(found) == {
        name for name, x in bert().items() if x.dim() == 2 and "embeddings" not in name
    }
    # It refuses groups that do not divide: there is no type that it would take instead.
    status = found.set_index(["tensor", "recipe"]).status
    assert status["encoder.layer.0.intermediate.dense.weight", "w4a16_g128"] == "refused"
    assert status["encoder.layer.0.output.dense.weight", "w4a16_g128"] == "ok"


def test_the_gate_fails_on_what_was_not_measured(command, tmp_path):
    bound = ("-rq4_k", "--fail-under", "5")
    report = tmp_path / "junit.xml"
    done = command(*bound, "--junit", str(report))
    assert done.exit_code == 1
    assert (
        "q4_k: 1 measured, 0 of them under a fallback; 7 left aside; 6 failed."
        in done.stderr.splitlines()[-1]
    )
    assert "--allow-refused" in done.stderr
    suite = ElementTree.parse(report).getroot()[0]
    assert (suite.get("name"), suite.get("tests"), suite.get("failures")) == ("q4_k", "7", "6")
    assert sum(case.find("failure") is not None for case in suite) == 6
    done = command(*bound, "--allow-refused")
    assert (done.exit_code, "6 refused; 0 failed" in done.stderr) == (0, True)
    # The engine has a type for all of them.
    done = command(*bound, "--engine", "llama.cpp")
    assert (done.exit_code, "7 measured, 6 of them under a fallback" in done.stderr) == (0, True)
    assert command(*bound, "--engine", "llama.cpp", "--fail-under", "99").exit_code == 1
    # Without a bound a recipe may refuse.
    assert command("-rq4_k").exit_code == 0
    assert command("-rq4_k", "--engine", "nosuch").exit_code == 2


def test_a_damaged_tensor_fails_whatever_is_allowed(file, command):
    bad = bert() | {"encoder.layer.0.output.dense.weight": torch.full((ROWS, WIDE), float("nan"))}
    safetensors.torch.save_file(bad, file)
    done = command("-rint8_per_row", "--fail-under", "1", "--allow-refused")
    assert (done.exit_code, "1 failed" in done.stderr.splitlines()[-1]) == (1, True)


@pytest.mark.parametrize("profile", PROFILES.values(), ids=lambda each: each.id)
def test_a_profile_names_what_there_is(profile):
    assert profile.kinds <= set(KINDS)
    assert profile.kinds >= {"linear"}
    assert set(profile.recipes) <= set(ALL_RECIPES)
    used = {*profile.fallbacks, *filter(None, profile.fallbacks.values())}
    assert used <= set(profile.recipes)
    # No fallback leads back to itself.
    for name in profile.fallbacks:
        seen = [name]
        while following := profile.fallbacks.get(seen[-1]):
            assert following not in seen
            seen.append(following)


@pytest.mark.parametrize("kind", sorted(set(KINDS) - QUANTIZED))
def test_every_reason_to_keep_a_tensor_has_words(kind):
    for language in languages():
        assert QuantVizError(f"checkpoint.kept.{kind}").message(language)


def test_scales_of_codes_are_no_weights(tmp_path):
    scales = {"l.0.q.scales": values(8, 32)}
    safetensors.torch.save_file(scales | {"l.1.q.weight": values(8, 32)}, tmp_path / "m.safetensors")
    found = qv.scan(tmp_path / "m.safetensors", "int4_g32", results=tmp_path / "r")
    assert dict(zip(found.tensor, found.status, strict=True))["l.0.q.scales"] == "left_aside"


def test_inputs_of_captured_layers_are_no_weights(tmp_path):
    file = tmp_path / "capture.safetensors"
    x = values(16, WIDE)
    Layers(tuple(Captured(name, "linear", values(ROWS, WIDE), x) for name in ("up", "down"))).save(file)
    done = CliRunner().invoke(quantviz, ["scan", str(file), "-rint8_g32", "--results", str(tmp_path / "r")])
    assert "2 measured, 0 of them under a fallback; 2 left aside" in done.stderr
    assert "Everything was read: 2 weights" in done.stderr
    assert "2 tensors have the inputs that captured layers took (up.inputs, down.inputs)" in done.stderr
    assert aside_of(qv.scan(file, "int8_g32", results=tmp_path / "r")) == {"up.inputs", "down.inputs"}
    # Nor do they lack a partner in a quantized file.
    weights = [(f"{name}.weight", values(ROWS, WIDE)) for name in ("up", "down")]
    write_gptq(tmp_path / "gptq.safetensors", weights, nearest=True)
    audit = qv.audit(tmp_path / "gptq.safetensors", file, results=tmp_path / "r")
    assert {each.tensor: each.became for each in audit.account.tensors if each.side == "original"} == {
        **dict.fromkeys(("up.weight", "down.weight"), "compared"),
        **dict.fromkeys(("up.inputs", "down.inputs"), "left_aside"),
    }
    # In another file a name alone makes no inputs.
    safetensors.torch.save_file({"up.inputs": x}, tmp_path / "m.safetensors")
    assert qv.scan(tmp_path / "m.safetensors", "int8_g32", results=tmp_path / "r").status.tolist() == ["ok"]


def test_a_folder_of_gptq_has_its_weights_and_none_of_their_parts(tmp_path):
    """Packed weights are decoded; what is left of one that lacks a part is no weight, and is counted."""
    weights = {f"model.layers.{layer}.mlp.up_proj.weight": values(32, WIDE, seed=layer) for layer in (0, 1)}
    file = tmp_path / "gptq" / "model.safetensors"
    file.parent.mkdir()
    write_gptq(file, weights.items(), nearest=True)
    found = qv.scan(tmp_path / "gptq", "int8_per_row", results=tmp_path / "r")
    assert dict(zip(found.tensor, found.status, strict=True)) == dict.fromkeys(weights, "ok")
    assert all(tuple(shape) == (32, WIDE) for shape in found["shape"])
    cut = safetensors.torch.load_file(file)
    del cut["model.layers.1.mlp.up_proj.qzeros"]
    safetensors.torch.save_file(cut, file)
    asked = ["scan", str(tmp_path / "gptq"), "-rint8_per_row", "--results", str(tmp_path / "r")]
    ran = CliRunner().invoke(quantviz, [*asked, "--format", "json"])
    status = {row["tensor"]: row["status"] for row in json.loads(ran.stdout)}
    assert status.pop("model.layers.0.mlp.up_proj.weight") == "ok"
    assert status
    assert not {name for name, own in status.items() if own == "ok"}
    assert ran.exit_code == 1, ran.stderr


# ---- llama.cpp's mixtures of types, against what its own quantizer wrote ------------------------------


#: What `tests/engines/record_llama_presets.py` recorded, by model.
RECORDED = json.loads((ROOT / "tests/engines/recorded/llama_presets.json").read_text(encoding="utf-8"))


UNENCODED = PROFILES["llama_cpp"].unencoded


def asked_as(preset):
    """Return what a preset of llama-quantize is called here."""
    name = preset.lower()
    return name if name in PRESETS else f"{name}_file"


def importance_of(model, path):
    """Return an importance matrix of 1 for all that llama-imatrix sees, as the record's."""
    weights = {}
    for name, shape, _ in RECORDED[model]["tensors"]:
        if name.startswith("blk.") and len(shape) > 1 and "gate_inp" not in name:
            weights[name] = np.ones(shape[-1] * (shape[0] if len(shape) > 2 else 1))
    return str(write_dat(path / "imatrix.dat", weights))


@pytest.mark.parametrize("form", ["plain", "weighed"])
@pytest.mark.parametrize("model", RECORDED)
def test_mixtures_and_whole_files_are_those_of_llama_quantize(model, form, tmp_path):
    """Without an importance matrix and with one, by which it chooses other types in some."""
    source = tmp_path / "source.gguf"
    with source.open("wb") as file:
        file.truncate(RECORDED[model]["size"])  # only its size is asked for
    tensors = RECORDED[model]["tensors"]
    # In any order: llama.cpp has one of its own.
    entries = [Entry(name, str(source), "float16", tuple(shape), size) for name, shape, size in tensors][::-1]
    encoded = {
        each: own for each, own in RECORDED[model]["presets"][form].items() if each.lower() not in UNENCODED
    }
    assert {asked_as(each) for each in encoded} == set(PRESETS)
    matrix = importance_of(model, tmp_path) if form == "weighed" else ""
    selection = Selection("llama_cpp", imatrix=matrix)
    for preset in [each for each, own in encoded.items() if own is None]:
        with pytest.raises(QuantVizError, match="--imatrix") as error:
            selected(TensorListing(tuple(entries)), selection, recipes_named(asked_as(preset)))
        assert error.value.key == "checkpoint.preset_needs_importance"
        del encoded[preset]
    named = recipes_named(map(asked_as, encoded))
    found = selected(TensorListing(tuple(entries)), selection, named).entries
    sizes = file_sizes(found, named, PROFILES["llama_cpp"].files)
    for at, (preset, written) in enumerate(encoded.items()):
        types = {tensors[k][0]: kind for kind, own in written["types"].items() for k in own}
        for entry in found:
            if entry.unmeasured is not None:
                assert types[entry.name] in ("f16", "f32"), entry.name
                continue
            scheme = entry.schemes([scheme for _, scheme in named])[at]
            ours = recipe_id(scheme).removeprefix("gguf_") if scheme else "f16"
            assert ours == types[entry.name], (preset, entry.name)
        assert sizes[asked_as(preset)] == pytest.approx(written["size"], rel=1e-3), preset


def test_a_tensor_without_importance_is_refused_where_llama_quantize_refuses_it(tmp_path):
    """By name, where the matrix lacks it; the embedding needs none, and other presets none at all."""
    names = ["token_embd.weight", "blk.0.attn_q.weight", "blk.0.attn_k.weight"]
    entries = [Entry(name, "m.gguf", "float16", (8, WIDE), 16 * WIDE) for name in names]
    matrix = str(write_dat(tmp_path / "imatrix.dat", {names[1]: np.ones(WIDE)}))
    selection = Selection("llama_cpp", imatrix=matrix)
    selected(TensorListing(tuple(entries)), selection, recipes_named("q2_k_file"))
    with pytest.raises(QuantVizError) as error:
        selected(TensorListing(tuple(entries)), selection, recipes_named("q2_k_s"))
    assert (error.value.params["count"], error.value.params["names"]) == (1, names[2])
    selected(TensorListing(tuple(entries[:2])), selection, recipes_named("q2_k_s"))


@pytest.mark.parametrize(
    ("preset", "columns", "head", "embedding"),
    [
        ("q1_0", 256, "q6_k", "q1_0"),
        ("q1_0", 192, "q8_0", "q1_0"),
        ("q2_0", 192, "q6_k", "q4_k"),
        ("q2_0", 96, "q8_0", "q4_k"),
    ],
)
def test_presets_of_one_bit_and_two_keep_the_head_and_embedding_as_llama_quantize_does(
    preset, columns, head, embedding
):
    """By its code: no recorded release has both types."""
    names = ("output.weight", "token_embd.weight", "blk.0.attn_v.weight", "blk.0.ffn_down.weight")
    shapes = dict.fromkeys(names, (512, columns))
    own = UNENCODED[preset]
    found = types_of(own, shapes, {}, has_importance=False)
    assert list(map(found.get, names)) == [head, embedding, preset, preset]
    del shapes["output.weight"]
    assert types_of(own, shapes, {}, has_importance=False)["token_embd.weight"] == head


@pytest.mark.parametrize("form", ["plain", "weighed"])
@pytest.mark.parametrize("model", RECORDED)
def test_types_that_are_not_encoded_are_chosen_as_llama_quantize_does(model, form):
    """Presets of IQ1, IQ2 and IQ3: each tensor's type, the size of the whole file, and what is refused."""
    fallbacks = PROFILES["llama_cpp"].fallbacks
    blocks = {each.name.lower(): each for each in BLOCK_TYPES.values()}
    shapes = {name: tuple(shape) for name, shape, _ in RECORDED[model]["tensors"]}
    header = RECORDED[model]["size"] - sum(-(-size // 32) * 32 for *_, size in RECORDED[model]["tensors"])
    asked = [each for each in RECORDED[model]["presets"][form] if each.lower() in UNENCODED]
    assert UNENCODED.keys() - {each.lower() for each in asked} == {"q1_0", "q2_0"}
    # Those of every preset are the same: norms, positions, routers.
    known = RECORDED[model]["presets"]["weighed"]["IQ3_S"]["types"].get("f32", ())
    kept = {list(shapes)[k] for k in known}
    for preset in asked:
        written = RECORDED[model]["presets"][form][preset]
        own = UNENCODED[preset.lower()]
        chosen = types_of(own, shapes, {}, has_importance=form == "weighed")
        for name, shape in shapes.items():
            if name in kept:
                chosen[name] = "f32"
            while shape[-1] % blocks[chosen[name]].length:
                # A type of no recipe has blocks of 256, and falls back as IQ4_XS does.
                chosen[name] = fallbacks.get(chosen[name], "iq4_nl") or "f16"
        refused = [name for name, kind in chosen.items() if own.refuses_without_importance(kind, name)]
        assert bool(refused and form == "plain") == (written is None), preset
        if written is None:
            continue
        size = header
        types = {list(shapes)[k]: kind for kind, numbers in written["types"].items() for k in numbers}
        for name, shape in shapes.items():
            kind = chosen[name]
            assert kind == types[name], (preset, name)
            rows = -(-math.prod(shape) // blocks[kind].length)
            size += -(-rows * blocks[kind].size // 32) * 32
        assert size == pytest.approx(written["size"], rel=1e-3), preset


@pytest.mark.parametrize("preset", UNENCODED)
def test_a_preset_that_is_not_encoded_is_refused_by_name(preset):
    with pytest.raises(QuantVizError, match=r"llama\.cpp.*(iq[1-3]_|q[12]_0)"):
        recipes_named(preset)


def test_a_mixture_is_scanned_by_both_names_of_a_tensor(tmp_path):
    """Names of Hugging Face and of llama.cpp give the same types; without the engine it means nothing."""
    kinds = {"attn_v": "self_attn.v_proj", "ffn_down": "mlp.down_proj", "attn_q": "self_attn.q_proj"}
    theirs = {f"blk.{layer}.{kind}.weight": values(4, WIDE) for layer in range(8) for kind in kinds}
    ours = {
        f"model.layers.{layer}.{kind}.weight": values(4, WIDE)
        for layer in range(8)
        for kind in kinds.values()
    }
    used = []
    for name, made in (("a", theirs), ("b", ours)):
        safetensors.torch.save_file(made, tmp_path / f"{name}.safetensors")
        found = qv.scan(
            tmp_path / f"{name}.safetensors", "q4_k_m", engine="llama.cpp", results=tmp_path / "r.sqlite"
        )
        used.append(sorted(found.fallback.fillna("q4_k")))
        assert set(found.recipe) == {"q4_k_m"}
        assert "as llama.cpp writes it" in found.attrs["notes"][-1]
    assert used[0] == used[1] == ["q4_k"] * 16 + ["q6_k"] * 8
    with pytest.raises(QuantVizError, match=r"--engine llama\.cpp"):
        qv.scan(tmp_path / "a.safetensors", "q4_k_m", results=tmp_path / "r.sqlite")


def test_a_row_of_zeros_fails_in_torchao_alone(tmp_path):
    """As rows that fill up a vocabulary: compressed-tensors gives them a scale, torchao divides 0 by 0."""
    x = values(8, NARROW)
    x[5] = 0
    safetensors.torch.save_file({"lm_head.weight": x}, tmp_path / "m.safetensors")
    recipes = ("fp8_e4m3_per_row", "torchao_fp8_per_row")
    found = qv.scan(tmp_path / "m.safetensors", recipes, results=tmp_path / "r")
    assert dict(zip(found.recipe, found.status, strict=True)) == dict(
        zip(recipes, ("ok", "problem"), strict=True)
    )
    assert found.sqnr_db[0] > 25
    torchao = qv.scan(
        tmp_path / "m.safetensors", "torchao_fp8_per_row", engine="torchao", results=tmp_path / "r"
    )
    assert torchao.status.tolist() == ["problem"]
