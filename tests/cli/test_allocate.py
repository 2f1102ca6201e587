"""`quantviz allocate`: from a scan's table in each form to a choice, and to what tools read."""

import json

import numpy as np
import pytest
import yaml
from click.testing import CliRunner
from safetensors.numpy import save_file

import quantviz as qv
from quantviz.checkpoints.allocation import knapsack
from quantviz.checkpoints.profiles import PROFILES
from quantviz.cli import quantviz
from quantviz.cli.allocate import TOOLS
from quantviz.cli.output import Output, write
from quantviz.export.allocations import EXPORTS, _is_own

NAMES = [f"model.layers.0.self_attn.{part}_proj.weight" for part in "qkv"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A scan of a tiny model in every form."""
    made = tmp_path_factory.mktemp("allocate")
    drawn = np.random.default_rng(0)
    tensors = {name: drawn.standard_normal((16, 128)).astype(np.float32) for name in NAMES}
    tensors["model.norm.weight"] = np.ones(128, np.float32)
    save_file(tensors, made / "model.safetensors")
    tensors["lm_head.weight"] = drawn.standard_normal((16, 128)).astype(np.float32)
    save_file(tensors, made / "with_head.safetensors")
    scanned = qv.scan(made / "model.safetensors", ["int4_g128", "int8_per_row"], results=made / "scan.sqlite")
    for form in ("parquet", "csv", "json", "jsonl"):
        write(Output(form, made / f"scan.{form}"), scanned)
    return made


def run(*arguments, status=0):
    done = CliRunner().invoke(quantviz, ["allocate", *map(str, arguments)])
    assert done.exit_code == status, (done.output, done.exception)
    return done


@pytest.mark.parametrize("form", ["sqlite", "parquet", "csv", "json", "jsonl"])
def test_every_form_of_a_scan_gives_the_same_choice(folder, form):
    told = ("--bits", 6.5, "--exclude", "*norm*", "--format", "json")
    # What engines multiply in one kernel gets one recipe, unless it may be split.
    together = json.loads(run(folder / f"scan.{form}", *told).stdout)
    assert {row["recipe"] for row in together} == {"int4_g128"}
    done = run(folder / f"scan.{form}", *told, "--split")
    choice = {row["tensor"]: row["recipe"] for row in json.loads(done.stdout)}
    wanted = qv.allocate(
        qv.scan(folder / "model.safetensors", ["int4_g128", "int8_per_row"], results=folder / "scan.sqlite"),
        bits_per_weight=6.5,
        excluded="*norm*",
        fused=(),
    )
    assert choice == wanted.choice
    assert sorted(choice.values()) == ["int4_g128", "int4_g128", "int8_per_row"]
    assert "Smallest weight error at this size" in done.stderr
    assert "best" not in done.stderr.lower()
    assert "Change next" in done.stderr


def test_a_choice_that_is_not_proven_says_its_gap(tmp_path, monkeypatch):
    """Of a budget of 10 bits the tensor that saves most a bit takes 6, and the other two would save more."""
    table = tmp_path / "table.csv"
    lines = [f"{name},int4,0,10\n{name},int8,{bits},{cost}" for name, bits, cost in
             (("a", 6, 3), ("b", 5, 4.5), ("c", 5, 4.5))]  # fmt: skip
    table.write_text("\n".join(["tensor,recipe,bits,cost", *lines]))
    assert run(table, "--budget-bits", 10).stderr.startswith("Smallest weight error at this size: 10 bits")
    monkeypatch.setattr(knapsack, "MOST_MADE", -1)
    # 23 instead of 19, of which the linear relaxation reaches 18.6.
    assert run(table, "--budget-bits", 10).stderr.startswith("Within 0.9 dB of the smallest weight error at")


def test_what_is_asked_for_is_kept_to(folder):
    file = folder / "scan.parquet"
    fused = run(file, "--bits", 6.5, "--exclude", "*norm*", "--fuse", "--for", "json")
    assert set(json.loads(fused.stdout)["choice"].values()) == {"int4_g128"}
    pinned = run(file, "--gb", 1, "--exclude", "*norm*", "--pin", f"{NAMES[0]}=int4_g128", "--for", "json")
    assert json.loads(pinned.stdout)["choice"][NAMES[0]] == "int4_g128"
    written = folder / "recipe.yaml"
    told = ("--budget-bits", 60000, "--for", "llmcompressor", "-o", written)
    assert "--other-arithmetic" in run(file, *told, status=2).stderr
    run(file, *told, "--other-arithmetic")
    assert "QuantizationModifier" in written.read_text()
    points = json.loads(
        run(file, "--bits", 8, "--exclude", "*norm*", "--frontier", "--format", "json").stdout
    )
    assert [point["recipe"] for point in points if point["recipe"]] == ["int4_g128", "int8_per_row"]
    assert points[0]["bits"] == points[-2]["bits"]
    assert "leave out --for" in run(file, "--bits", 8, "--frontier", "--for", "json", status=2).stderr


def test_a_tool_gets_what_it_has(folder, tmp_path):
    """Recipes that it lacks are dropped, the head stays, and what it joins has one recipe."""
    recipes = ["w4a16_g128", "w8a8_per_row", "q4_0", "int4_g128"]
    table = qv.scan(folder / "with_head.safetensors", recipes, results=tmp_path / "r.sqlite")
    write(Output("parquet", tmp_path / "scan.parquet"), table)
    done = run(tmp_path / "scan.parquet", "--bits", 13, "--for", "llmcompressor")
    assert "q4_0, int4_g128" in done.stderr
    # Each weight is three tensors of its file, with entries in the header, and what stays has one.
    own = {"among": recipes[:2], "excluded": "lm_head.weight", "fused": "engine", "files_of": "vllm"}
    found = qv.allocate(table, bits_per_weight=13, **own)
    assert f"{found.bits:,} bits of {found.budget_bits:,}" in done.stderr
    assert found.bits > qv.allocate(table, bits_per_weight=13, **own | {"files_of": None}).bits
    read = yaml.safe_load(done.stdout)["quant_stage"]["quant_modifiers"]["QuantizationModifier"]
    assert sorted(read["ignore"]) == ["lm_head", "model.norm"]
    assert [sorted(group["targets"]) for group in read["config_groups"].values()] == [
        sorted(name.removesuffix(".weight") for name in NAMES)
    ]
    done = run(tmp_path / "scan.parquet", "--bits", 9, "--for", "llama")
    assert {line.partition("=")[2] for line in done.stdout.splitlines()} == {"q4_0", "f32"}


def test_a_size_says_what_it_is_of(folder, tmp_path):
    """Of the recipes alone, or of the file of any engine's tool that has them."""
    recipes = ["w8a8_per_row", "w4a16_g128", "bnb_int8", "nf4_64"]
    table = qv.scan(folder / "with_head.safetensors", recipes, results=tmp_path / "r.sqlite")
    write(Output("parquet", tmp_path / "scan.parquet"), table)
    asked = (tmp_path / "scan.parquet", "--bits", 14)
    alone = run(*asked)
    assert "no tool's file" in alone.stderr
    assert "--files-of" in alone.stderr
    assert all(each.name in alone.stderr for each in PROFILES.values())
    done = run(*asked, "--files-of", "bitsandbytes")
    assert "the file that bitsandbytes writes" in done.stderr
    kept = {"excluded": "lm_head.weight", "files_of": "bitsandbytes"}
    found = qv.allocate(table, bits_per_weight=14, among=recipes[2:], **kept)
    assert f"{found.bits:,} bits of {found.budget_bits:,}" in done.stderr
    assert "w8a8_per_row, w4a16_g128" in done.stderr
    assert "mlx" in run(*asked, "--files-of", "mlx", status=2).stderr
    assert "--files-of vllm" in run(*asked, "--files-of", "vllm", "--for", "json", status=2).stderr
    assert "nosuch" in run(*asked, "--files-of", "nosuch", status=2).stderr


def test_every_target_takes_what_it_has_and_measures_again_what_it_has_not(folder, tmp_path, monkeypatch):
    """A table of another engine's arithmetic is refused, and one command measures as the target does."""
    monkeypatch.setenv("QUANTVIZ_CACHE_DIR", str(tmp_path / "cache"))
    for profile in filter(lambda each: each.export, PROFILES.values()):
        tool = profile.export
        told = (folder / "scan.parquet", "--bits", 14, "--for", tool)
        assert "--remeasure" in run(*told, status=2).stderr
        done = run(*told, "--remeasure", folder / "with_head.safetensors")
        # A norm is never chosen for, and each recipe that is told of is the engine's own.
        measured = done.stderr.partition(f"as {profile.name} quantizes it: ")[2].partition(".\n")[0]
        assert set(measured.split(", ")) <= set(profile.recipes)
        assert all(_is_own(each, profile) for each in measured.split(", "))
        assert "norm.weight=q" not in done.stdout
    assert "--for" in run(*told[:3], "--remeasure", folder / "model.safetensors", status=2).stderr


def test_names_with_marks_of_options_are_pinned_and_tied(tmp_path):
    names, recipes = ("a=b,c", "d\\=e", "f"), ("int4", "int8")
    rows = [
        {"tensor": name, "recipe": recipe, "bits": bits, "cost": 1 / bits}
        for name in names
        for recipe, bits in zip(recipes, (400, 800), strict=True)
    ]
    write(Output("csv", tmp_path / "table.csv"), rows)
    pinned, tied = r"a\=b\,c=int8", r"d\\\=e,f"
    done = run(
        tmp_path / "table.csv", "--budget-bits", 1600, "--pin", pinned, "--tie", tied, "--format", "json"
    )
    chosen = {row["tensor"]: row["recipe"] for row in json.loads(done.stdout)}
    assert chosen == {names[0]: "int8", names[1]: "int8", names[2]: "int8"}
    assert r"\=" in run("--help").stdout


def test_a_mistake_is_one_sentence(folder):
    file = folder / "scan.csv"
    for arguments, said in (
        ((file, "--bits", 1), "below the least possible"),
        ((file,), "one budget"),
        ((file, "--bits", 8, "--pin", "x"), "TENSOR=RECIPE"),
        ((folder / "model.safetensors", "--bits", 8), "no table"),
        ((folder / "none.csv", "--bits", 8), "cannot be read"),
        ((file, "--bits", 8, "-o", folder / "x.yaml"), "for a tool"),
    ):
        done = run(*arguments, status=2)
        assert said in done.stderr
        assert done.stderr.count("\n") == 1
    assert "低于" in run(file, "--bits", 1, "--lang", "zh", status=2).stderr


def test_the_tools_are_those_that_are_exported_for():
    assert tuple(EXPORTS) == TOOLS
