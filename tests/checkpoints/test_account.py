"""An audit accounts for every tensor and byte of both sides, whatever was permuted, renamed or dropped."""

import csv
import html
import io
import json
import math
import random
import re

import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import save_file

import quantviz as qv
from quantviz.checkpoints.audit.matching import matched_by_ends, parts_of, places_of
from quantviz.checkpoints.model.account import BECAME
from quantviz.checkpoints.scan.listing import list_checkpoint
from quantviz.cli import quantviz
from quantviz.text import languages
from tests.helpers import layouts
from tests.helpers.sharded import write_model


def int8(tensors):
    """The matrices of a model as int8 codes with a scale for each row, as compressed-tensors has them."""
    made = {}
    for name, x in tensors.items():
        if x.dim() < 2 or "embed" in name:
            made[name] = x
            continue
        scale = x.abs().amax(1, keepdim=True) / 127
        made[name] = torch.round(x / scale).to(torch.int8)
        made[f"{name}_scale"] = scale
    return made


def written(path, tensors):
    path.parent.mkdir(exist_ok=True)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path)
    return path


def compared(quantized, original, *more):
    return CliRunner().invoke(quantviz, ["compare", str(quantized), str(original), *more])


def audited(quantized, original):
    audit = qv.audit(quantized, original)
    for language in languages():
        assert all(audit.messages(language))
    return audit


def check_sums(audit, quantized, original):
    """Each tensor of either file is accounted for once, and their bytes add up."""
    for side, path in (("quantized", quantized), ("original", original)):
        with qv.open_tensors(path) as catalog:
            lines = [each for each in audit.account.tensors if each.side == side]
            assert sorted(each.tensor for each in lines) == sorted(catalog.names)
            assert sum(each.size for each in lines) == sum(map(catalog.stored_bytes, catalog.names))
        whole = audit.account.coverage(side).whole
        assert whole.size == sum(audit.account.coverage(side).part(each).size for each in BECAME)


WRAPPERS = ("", "module.", "_orig_mod.", "module._orig_mod.", "_fsdp_wrapped_module.", "net.", "base_model.")


@pytest.mark.parametrize("seed", range(12))
def test_what_was_permuted_renamed_and_dropped_is_accounted_for(tmp_path, seed):
    chance = random.Random(seed)
    model = layouts.llama(seed, layers=2)
    prefix = chance.choice(WRAPPERS)
    # One that stands for another name is no partner of anything; both sides lose some.
    dropped_here = set(chance.sample(sorted(model), chance.randint(0, 3)))
    rest = sorted(set(model) - dropped_here)
    dropped_there = set(chance.sample(rest, chance.randint(0, 3)))
    renamed = set(chance.sample(sorted(set(rest) - dropped_there), chance.randint(0, 2)))
    here = {name: x for name, x in model.items() if name not in dropped_here}
    there = {
        prefix + (f"{name}.renamed_{number}" if name in renamed else name): x
        for number, (name, x) in enumerate(model.items())
        if name not in dropped_there
    }
    order = list(there)
    chance.shuffle(order)
    quantized = written(tmp_path / "q" / "q.safetensors", int8(here))
    original = written(tmp_path / "o" / "o.safetensors", {name: there[name] for name in order})
    audit = audited(quantized, original)
    check_sums(audit, quantized, original)
    pairs = {each.tensor: each.original for each in audit.tensors if each.tensor and each.original}
    # Whatever was matched is the same tensor, and it is all that could be.
    assert all(original_name == prefix + name for name, original_name in pairs.items())
    assert set(pairs) == set(here) - dropped_there - renamed
    assert {each.status for each in audit.tensors if each.original and each.tensor} <= {"ok", "same"}
    lost = dropped_here | dropped_there | renamed
    assert audit.is_complete == audit.account.is_complete == (not lost)
    assert audit.is_sound == (not lost)
    unmatched = audit.unmatched
    assert set(unmatched.quantized) == (dropped_there | renamed) - dropped_here
    assert len(unmatched.original) == len(dropped_here | renamed)
    status = compared(quantized, original).exit_code
    assert status == (1 if lost else 0)


def test_weights_that_were_not_read_come_first_and_end_with_status_1(tmp_path):
    model = layouts.llama()
    tensors = int8(model)
    name = "model.layers.0.mlp.up_proj.weight"
    tensors[name] = torch.randint(0, 2**31 - 1, (96, 8), dtype=torch.int32)
    del tensors[f"{name}_scale"]
    tensors["model.layers.0.mlp.up_proj.codebook"] = torch.randn(16)
    quantized = written(tmp_path / "q" / "q.safetensors", tensors)
    original = written(tmp_path / "o" / "o.safetensors", model)
    audit = audited(quantized, original)
    assert audit.verdict.startswith("1 of 9 weights were not compared (")
    assert name in audit.verdict
    share = 96 * 64 / sum(x.numel() for x in model.values() if x.dim() == 2)
    assert f"({100 * share:.1f} % of the values" in audit.verdict
    check_sums(audit, quantized, original)
    done = compared(quantized, original, "--format", "json")
    assert done.exit_code == 1
    assert done.stderr.startswith("1 of 9 weights were not compared")
    row = next(row for row in json.loads(done.stdout) if row["tensor"] == name)
    assert (row["coverage"], row["original"]) == ("not_read", name)
    chinese = compared(quantized, original, "--lang", "zh")
    assert "9 个权重中有 1 个未比较" in chinese.stderr


@pytest.mark.parametrize("language", languages())
def test_an_audit_says_how_much_it_read_in_every_form(tmp_path, language):
    quantized = int8(layouts.llama())
    first = "model.layers.0.self_attn.q_proj"
    quantized[f"{first}.weight_sort"] = torch.zeros(4)
    quantized["<b>a|b</b>.weight"] = torch.randn(8, 32)
    paths = (
        written(tmp_path / "q" / "q.safetensors", quantized),
        written(tmp_path / "o" / "o.safetensors", layouts.llama()),
    )
    verdict = qv.audit(*paths).messages(language)[0]
    assert "10" in verdict
    assert "2" in verdict

    def said(form):
        return compared(*paths, "--format", form, "--lang", language).stdout

    rows = json.loads(said("json"))
    assert [row["summary"] for row in rows if row["summary"]] == [rows[0]["summary"]] == [verdict]
    assert next(csv.DictReader(io.StringIO(said("csv"))))["summary"] == verdict
    page, lines = said("html"), said("markdown")
    assert html.unescape(page).index(verdict) < page.index("<h2>")
    assert "<b>a" not in page
    assert f"{first}.weight".replace("_", "\\_") in lines
    assert all(line.count("|") - line.count("\\|") in (0, 4, 7, 9) for line in lines.splitlines())
    assert qv.report(qv.audit(*paths), tmp_path / "x.html", title="q.safetensors", language=language) == page
    assert (tmp_path / "x.html").read_text() == page
    # Both say what became of everything, as the account has it.
    part = qv.audit(*paths).account.coverage("quantized").not_read
    assert f"| {part.tensors} | {part.weights} |" in lines
    assert f'<td class="number">{part.tensors}</td><td class="number">{part.weights}</td>' in page


def test_the_report_of_an_audit_leads_to_the_lab(tmp_path, monkeypatch):
    """As that of a scan does: where the app opens the original, under the scheme of the quantized file."""
    quantized = written(tmp_path / "q" / "q.safetensors", int8(layouts.llama()))
    original = written(tmp_path / "o" / "o.safetensors", layouts.llama())
    asked = (quantized, original, "--app", "http://h:8501/", "--format", "html")
    assert "<a href" not in compared(*asked).stdout
    monkeypatch.setenv("QUANTVIZ_DATA_DIR", str(tmp_path / "o"))
    page = compared(*asked).stdout
    worst = min(qv.audit(quantized, original).tensors, key=lambda each: each.metrics.get("sqnr_db", math.inf))
    address, name = re.search(r'<td><a href="(http://h:8501/lab[^"]*)">([^<]*)</a>', page).groups()
    assert name == worst.tensor
    read = CliRunner().invoke(quantviz, ["link", html.unescape(address), "--format", "json"])
    told = json.loads(read.stdout)
    assert (told["scheme"], told["shape"]) == (str(worst.scheme), [*worst.shape])
    assert worst.original in told["title"]


@pytest.mark.parametrize(
    "change", [lambda x: x, lambda x: x.flip(0), torch.zeros_like, lambda x: x * torch.inf]
)
@pytest.mark.parametrize("name", ["a.weight", "module.a.weight", "x.experts.a"])
def test_of_one_weight_no_sentence_speaks_of_several(tmp_path, change, name):
    x = drawn(16, 0)
    tensors = {f"{name}[0]" if "experts" in name else "a.weight": x}
    quantized = written(tmp_path / "q" / "q.safetensors", int8(tensors))
    there = {name: change(x).reshape(1, 16, 48) if "experts" in name else change(x)}
    for sentence in audited(quantized, written(tmp_path / "o" / "o.safetensors", there)).messages():
        assert not re.search(r"\b1 (of 1 )?(\w+ )?(weights|tensors|experts|schemes|matrices)\b", sentence)


def test_whole_numbers_where_the_original_has_a_weight_are_not_read(tmp_path):
    quantized = written(
        tmp_path / "q" / "q.safetensors", {"a.weight": torch.ones(8, 8).int(), "n": torch.ones(4)}
    )
    original = written(tmp_path / "o" / "o.safetensors", {"a.weight": torch.randn(8, 8), "n": torch.ones(4)})
    audit = audited(quantized, original)
    assert not audit.is_complete
    assert "1 of 1 weight was not compared (100 % of the values" in audit.verdict


def test_indices_and_masks_are_left_aside(tmp_path):
    x = torch.randn(8, 8)
    more = {"position_ids": torch.arange(8).view(1, 8), "mask": torch.tril(torch.ones(8, 8)).to(torch.uint8)}
    original = written(tmp_path / "o" / "o.safetensors", {"a.weight": x, **more})
    quantized = written(tmp_path / "q" / "q.safetensors", {**int8({"a.weight": x}), **more})
    audit = audited(quantized, original)
    assert audit.is_sound
    assert {each.tensor for each in audit.account.of("left_aside")} == set(more)


def test_tied_weights_need_no_partner(tmp_path):
    x, y = torch.randn(32, 8), torch.randn(8, 8)
    original = {"model.embed_tokens.weight": x, "lm_head.weight": x.clone(), "model.a.weight": y}
    quantized = int8({"model.embed_tokens.weight": x, "model.a.weight": y})
    paths = [written(tmp_path / n / f"{n}.safetensors", t) for n, t in (("q", quantized), ("o", original))]
    assert audited(*paths).is_sound
    original["lm_head.weight"] = x + 1
    written(paths[1], original)
    assert not audited(*paths).is_complete


@pytest.mark.parametrize(
    ("value", "oddity"), [(0.0, "all_zero"), (0.5, "all_equal"), (float("nan"), "not_finite")]
)
def test_weights_that_are_constant_or_not_finite_are_findings(tmp_path, value, oddity):
    x = torch.full((8, 8), value)
    paths = [written(tmp_path / n / f"{n}.safetensors", {"a.weight": x}) for n in "qo"]
    audit = audited(*paths)
    assert {oddity, f"original_{oddity}"} <= set(audit.tensors[0].oddities)
    assert not audit.is_sound
    assert "exactly" not in " ".join(audit.messages())
    assert compared(*paths).exit_code == 1
    # A norm may well be all ones.
    paths = [written(tmp_path / n / f"{n}.safetensors", {"norm.weight": torch.ones(8)}) for n in "qo"]
    assert audited(*paths).is_sound


def test_a_fit_of_scales_does_not_explain_columns_in_another_order_away(tmp_path):
    """Groups of columns under one another's scales: a fit makes them 18 dB better, and they are damaged."""
    random_ = torch.Generator().manual_seed(5)
    x = torch.randn(32, 512, generator=random_) * torch.exp(1.2 * torch.randn(1, 512, generator=random_))
    order = x.abs().mean(0).argsort(descending=True)
    group = torch.empty(512, dtype=torch.int64)
    group[order] = torch.arange(512) // 128
    scale = torch.stack([x[:, group == k].abs().amax(1) / 7 for k in range(4)], 1)
    q = (torch.round(x / scale[:, group]) + 8).clamp(0, 15).int()
    twin = layouts.gptq("a", q, torch.full((32, 4), 8), scale, 4)  # without the groups of its columns
    del twin["a.g_idx"]
    quantized = written(tmp_path / "q" / "q.safetensors", twin)
    original = written(tmp_path / "o" / "o.safetensors", {"a.weight": x})
    (found,) = audited(quantized, original).tensors
    assert found.metrics["sqnr_db"] < 0
    assert (found.status, found.done) == ("rescaled", ())


# ---- names --------------------------------------------------------------------------------------

NAMES = [f"layers.{k}.{name}.weight" for k in range(2) for name in ("self_attn.q_proj", "mlp.down_proj")]


@pytest.mark.parametrize("there", ["", *WRAPPERS[1:], "model.model.", "language_model.model.", "a.b.c."])
def test_names_are_matched_by_their_ends(there):
    here = {f"model.{name}": (8, 8) for name in NAMES}
    found = matched_by_ends(here, {there + name: (8, 8) for name in NAMES})
    assert {name: match.original for name, match in found.items()} == {
        f"model.{name}": there + name for name in NAMES
    }


def test_a_wrapper_within_a_name_and_another_model_beside():
    here = {f"model.{name}": (8, 8) for name in NAMES}
    inside = {name: name.replace(".self_attn", "._fsdp_wrapped_module.self_attn") for name in NAMES}
    found = matched_by_ends(here, {f"x.model.{name}": (8, 8) for name in inside.values()})
    assert [match.original for match in found.values()] == [f"x.model.{inside[name]}" for name in NAMES]
    both = {f"model.{part}.{name}": (8, 8) for part in ("language_model",) for name in NAMES}
    visual = {f"model.visual.{NAMES[0]}": (8, 8)}
    found = matched_by_ends(here, both | visual)
    assert all("language_model" in match.original for match in found.values())
    assert len(found) == len(NAMES)
    # What is missing does not get the partner of the other model.
    del both[f"model.language_model.{NAMES[0]}"]
    assert f"model.{NAMES[0]}" not in matched_by_ends(here, both | visual)


@pytest.mark.parametrize(
    ("here", "there"),
    [
        ("model.layers.0.q_proj.weight", "model.layers.1.q_proj.weight"),
        ("layers.0.attn.foo.weight", "layers.0.attn.bar.weight"),
        ("encoder.0.a.weight", "decoder.1.a.weight"),
        ("weight", "bias"),
    ],
)
def test_other_tensors_are_not_matched(here, there):
    assert matched_by_ends({here: (8, 8)}, {there: (8, 8)}) == {}


@pytest.mark.parametrize("form", ["stacked", "turned", "halves", "in_turn"])
def test_experts_in_one_tensor_and_one_by_one(tmp_path, form):
    gate, up = (torch.randn(3, 8, 16, generator=torch.Generator().manual_seed(k)) for k in (0, 1))
    base = "model.layers.0.mlp.experts"
    one_by_one = {
        f"{base}.{k}.{name}.weight": x[k]
        for name, x in (("gate_proj", gate), ("up_proj", up))
        for k in range(3)
    }
    stacks = {
        "stacked": {f"{base}.gate_proj": gate, f"{base}.up_proj": up},
        "turned": {f"{base}.gate_proj": gate.mT, f"{base}.up_proj": up.mT},
        "halves": {f"{base}.gate_up_proj": torch.cat((gate, up), 1)},
        "in_turn": {f"{base}.gate_up_proj": torch.stack((gate, up), 2).flatten(1, 2).mT},
    }
    quantized = written(tmp_path / "q" / "q.safetensors", int8(one_by_one))
    original = written(tmp_path / "o" / "o.safetensors", stacks[form])
    audit = audited(quantized, original)
    assert audit.is_sound, audit.messages()
    assert all(each.metrics["sqnr_db"] > 35 for each in audit.tensors)
    assert any("experts" in sentence for sentence in audit.messages())


def one_matrix(parts, groups):
    """Matrices as one, their rows in groups in turn; written group by group."""
    cut = [x.chunk(groups) for x in parts]
    return torch.cat([rows for of_group in zip(*cut, strict=True) for rows in of_group])


def drawn(rows, seed, columns=48):
    """A matrix whose rows are of unlike size, so that one in another's place is noticed."""
    chance = torch.Generator().manual_seed(seed)
    return torch.randn(rows, columns, generator=chance) * torch.rand(rows, 1, generator=chance).exp()


Q, K, V = drawn(64, 1), drawn(16, 2), drawn(16, 3)
ATTENTION = "model.layers.0.self_attn"
APART = {f"{ATTENTION}.{name}.weight": x for name, x in (("q_proj", Q), ("k_proj", K), ("v_proj", V))}
O_PROJ = {f"{ATTENTION}.o_proj.weight": drawn(48, 4, 64)}


@pytest.mark.parametrize("groups", [1, 4, 16])
@pytest.mark.parametrize("name", [f"{ATTENTION}.qkv_proj.weight", "module.layers.0.self_attn.W_pack.weight"])
@pytest.mark.parametrize("together", ["quantized", "original"])
def test_query_key_and_value_as_one_matrix_and_as_three(tmp_path, together, name, groups):
    one = {name: one_matrix((Q, K, V), groups)}
    here, there = (one, APART) if together == "quantized" else (APART, one)
    lead = "module." if name.startswith("module") else "model."
    of_one, of_three = ({name.replace("model.", lead): x for name, x in O_PROJ.items()}, O_PROJ)
    beside = (of_one, of_three) if together == "quantized" else (of_three, of_one)
    quantized = written(tmp_path / "q" / "q.safetensors", int8(here | beside[0]))
    original = written(tmp_path / "o" / "o.safetensors", there | beside[1])
    audit = audited(quantized, original)
    check_sums(audit, quantized, original)
    assert audit.is_sound, audit.messages()
    assert all(each.metrics["sqnr_db"] > 35 for each in audit.tensors)
    assert any("put together" in each or "with a part of" in each for each in audit.messages())
    done = [
        note for each in audit.tensors for note in each.done if "part" in note.key or "joined" in note.key
    ]
    assert len(done) == (1 if together == "quantized" else 3)
    assert {note.params.get("groups", 1) for note in done} == {groups}
    assert compared(quantized, original).exit_code == 0


def test_a_part_that_is_missing_is_not_read(tmp_path):
    lost = {name: x for name, x in APART.items() if "k_proj" not in name} | O_PROJ
    one = {f"{ATTENTION}.qkv_proj.weight": one_matrix((Q, K, V), 1)} | O_PROJ
    quantized = written(tmp_path / "q" / "q.safetensors", int8(lost))
    original = written(tmp_path / "o" / "o.safetensors", one)
    audit = audited(quantized, original)
    check_sums(audit, quantized, original)
    assert sorted(each.tensor for each in audit.tensors if each.status == "ok") == sorted(lost)
    assert audit.unmatched.original == (f"{ATTENTION}.qkv_proj.weight",)
    assert not audit.is_complete
    # The other way round nothing can be said of the one.
    audit = audited(written(quantized, int8(one)), written(original, lost))
    assert [each.tensor for each in audit.tensors if each.status == "ok"] == [*O_PROJ]
    assert len(audit.unmatched.original) == 2
    assert not audit.is_complete


def test_one_matrix_that_holds_other_rows_is_not_the_same(tmp_path):
    one = {f"{ATTENTION}.qkv_proj.weight": one_matrix((Q.flip(0), K, V), 1)}
    quantized = written(tmp_path / "q" / "q.safetensors", int8(APART))
    audit = audited(quantized, written(tmp_path / "o" / "o.safetensors", one))
    assert {each.tensor.split(".")[-2]: each.status for each in audit.tensors} == {
        **{"q_proj": "not_same", "k_proj": "ok", "v_proj": "ok"}
    }


@pytest.mark.parametrize(
    ("as_one", "apart"),
    [
        ("attn.in_proj_weight", ("attn.q_proj.weight", "attn.k_proj.weight", "attn.v_proj.weight")),
        ("attn.in_proj_bias", ("attn.q_proj.bias", "attn.k_proj.bias", "attn.v_proj.bias")),
        ("mlp.gate_up_proj.weight", ("mlp.gate_proj.weight", "mlp.up_proj.weight")),
        ("mlp.experts.3.w13.weight", ("mlp.experts.w1[3]", "mlp.experts.w3[3]")),
    ],
)
def test_names_of_matrices_that_are_stored_as_one(as_one, apart):
    keys = {place.key for place in places_of(as_one) if place.number is None}
    for number, name in enumerate(apart):
        own = {place.key for place in places_of(name) if place.number == number}
        assert any(parts_of(one) == parts_of(other) for one in keys for other in own)


# ---- folders ------------------------------------------------------------------------------------


def test_a_folder_is_a_model_and_not_all_its_files(tmp_path):
    x, y = torch.randn(32, 32), torch.randn(32, 32)
    written(tmp_path / "model.safetensors", {"model.a.weight": x, "model.b.weight": y})
    written(tmp_path / "consolidated.safetensors", {"a.weight": x, "b.weight": y})
    torch.save({"state": x}, tmp_path / "optimizer.pt")
    torch.save({"args": y}, tmp_path / "training_args.bin")
    listing = list_checkpoint(tmp_path)
    assert [entry.name for entry in listing.entries] == ["model.a.weight", "model.b.weight"]
    said = " ".join(str(note) for note in listing.notes)
    for name in ("consolidated.safetensors", "optimizer.pt", "training_args.bin"):
        assert name in said
    aside = {each.file: each.size for each in listing.account.of("left_aside")}
    assert aside["optimizer.pt"] == (tmp_path / "optimizer.pt").stat().st_size


def test_a_model_twice_under_other_names_is_told_by_its_content(tmp_path):
    x, y = torch.randn(32, 32), torch.randn(32, 32)
    written(tmp_path / "model.safetensors", {"a": x, "b": y})
    written(tmp_path / "other_form.safetensors", {"c": x, "d": y})
    listing = list_checkpoint(tmp_path)
    assert [entry.name for entry in listing.entries] == ["a", "b"]
    assert "model twice" in str(listing.notes[0])
    # Other values under other names are more of the model.
    written(tmp_path / "other_form.safetensors", {"c": x + 1, "d": y + 1})
    assert len(list_checkpoint(tmp_path).entries) == 4


def test_numbered_files_are_the_model_and_a_stray_is_none(tmp_path):
    for k, name in enumerate("ab"):
        written(tmp_path / f"model-{k + 1:05}-of-00002.safetensors", {name: torch.randn(8, 8)})
    written(tmp_path / "model.safetensors", {"c": torch.randn(8, 8)})
    listing = list_checkpoint(tmp_path)
    assert [entry.name for entry in listing.entries] == ["a", "b"]
    assert "model.safetensors" in str(listing.notes[0])


def test_an_index_decides_and_what_it_says_wrongly_is_told(tmp_path):
    a, b, c = (torch.randn(8, 8) for _ in range(3))
    wrong = {"a": "one.safetensors", "b": "one.safetensors"}
    shards = {"one": {"a": a}, "two": {"b": b, "c": c, "d": c + 1}}
    index = write_model(tmp_path, wrong | {"c": "two.safetensors"}, **shards)
    listing = list_checkpoint(index)
    entries = {entry.name: entry for entry in listing.entries}
    assert list(entries) == ["a", "b", "c"]
    assert entries["b"].unmeasured.reason.key == "file.shard_elsewhere"
    assert "two.safetensors" in str(entries["b"].unmeasured.reason)
    assert any("'d'" in str(note) and "does not name it" in str(note) for note in listing.notes)


def test_shards_of_pytorch_are_read_by_their_index(tmp_path):
    x, y = torch.randn(8, 32), torch.randn(8, 32)
    shards = {"pytorch_model-00001-of-00002.bin": {"a": x}, "pytorch_model-00002-of-00002.bin": {"b": y}}
    for name, tensors in shards.items():
        torch.save(tensors, tmp_path / name)
    index = tmp_path / "pytorch_model.bin.index.json"
    names = {tensor: name for name, tensors in shards.items() for tensor in tensors}
    index.write_text(json.dumps({"weight_map": names}))
    with qv.open_tensors(index) as catalog:
        assert torch.equal(catalog.load("b"), y)
    for path in (index, tmp_path):
        found = qv.scan(path, ["int8_per_row"], results=tmp_path.parent / "r.sqlite")
        assert found.tensor.tolist() == ["a", "b"]
        assert found.status.tolist() == ["ok", "ok"]
    original = written(tmp_path / "o" / "o.safetensors", {"a": x, "b": y})
    assert audited(tmp_path, original).is_sound


def test_a_scan_measures_values_and_not_codes(tmp_path):
    weight = torch.randn(160, 96, generator=torch.Generator().manual_seed(0)) * 0.02
    tensors = layouts.fp8_blocks("a", weight, 32)
    config = {"quant_method": "fp8", "weight_block_size": [32, 32]}
    layouts.write(tmp_path / "x.safetensors", tensors, config)
    (row,) = qv.scan(tmp_path, ["int8_per_row"], results=tmp_path / "r.sqlite").to_dict("records")
    wide = tensors["a.weight_scale_inv"].repeat_interleave(32, 0).repeat_interleave(32, 1)
    x = tensors["a.weight"].float() * wide
    assert row["sqnr_db"] == pytest.approx(qv.measure(x, qv.RECIPES["int8_per_row"]).metrics["sqnr_db"])
    assert (row["tensor"], row["dtype"]) == ("a.weight", "fp8_blocks float8_e4m3fn")
    # The same codes beside scales of no known layout are not read, and their scales are no weights.
    tensors["a.weight_mystery_scale"] = tensors.pop("a.weight_scale_inv")
    layouts.write(tmp_path / "x.safetensors", tensors)
    (row,) = qv.scan(tmp_path, ["int8_per_row"], results=tmp_path / "r.sqlite").to_dict("records")
    assert (row["tensor"], row["status"]) == ("a.weight", "not_read")


def test_a_scan_says_how_much_it_read_in_every_form(tmp_path):
    def scanned(*more):
        asked = ["scan", str(tmp_path / "m"), "-r", "int8_per_row", "--results", str(tmp_path / "r.sqlite")]
        return CliRunner().invoke(quantviz, [*asked, *more])

    x = torch.randn(8, 32)
    tensors = {"a.weight": x, "b.weight": torch.randint(0, 2**31 - 1, (8, 4), dtype=torch.int32)}
    path = written(tmp_path / "m" / "x.safetensors", tensors | {"b.scales": torch.ones(8, 1)})
    done = scanned()
    assert done.exit_code == 1
    assert done.stderr.startswith("1 of 2 weights were not read (")
    rows = json.loads(scanned("--format", "json").stdout)
    assert [row["status"] for row in rows] == ["ok", "not_read"]
    assert done.stderr.startswith(rows[0]["summary"])
    assert rows[1]["summary"] is None
    page = scanned("--format", "html").stdout
    assert page.index("1 of 2 weights were not read") < page.index("median SQNR")
    assert "exactly" not in page
    assert "2 个权重中有 1 个未读取" in scanned("--lang", "zh").stderr
    # All that is there: the same sentence says so.
    written(path, {"a.weight": x})
    done = scanned()
    assert (done.exit_code, done.stderr.startswith("Everything was read: 1 weight, 100 % of the bytes.")) == (
        0,
        True,
    )


@pytest.mark.parametrize("value", [0.0, 0.25])
def test_a_scan_of_constant_weights_does_not_say_that_all_is_well(tmp_path, value):
    path = written(
        tmp_path / "x.safetensors", {n: torch.full((8, 32), value) for n in ("a.weight", "b.weight")}
    )
    asked = ["scan", str(path), "-r", "int8_per_row", "--results", str(tmp_path / "r.sqlite")]
    done = CliRunner().invoke(quantviz, asked)
    assert done.exit_code == 1
    assert "All values are equal in 2 weights (a.weight, b.weight)" in done.stderr
    page = CliRunner().invoke(quantviz, [*asked, "--format", "html"]).stdout
    assert "exactly" not in page
    assert "All values are equal in 2 weights" in page


def test_measure_and_explain_take_the_values_of_a_quantized_weight(tmp_path):
    weight = torch.randn(160, 96, generator=torch.Generator().manual_seed(0)) * 0.02
    tensors = layouts.fp8_blocks("a", weight, 32)
    config = {"quant_method": "fp8", "weight_block_size": [32, 32]}
    path = layouts.write(tmp_path / "x.safetensors", tensors, config)
    asked = [str(path), "a.weight", "-s", "int8_per_row", "--format", "json"]
    (row,) = json.loads(CliRunner().invoke(quantviz, ["measure", *asked]).stdout)
    wide = tensors["a.weight_scale_inv"].repeat_interleave(32, 0).repeat_interleave(32, 1)
    x = tensors["a.weight"].float() * wide
    assert row["sqnr_db"] == pytest.approx(qv.measure(x, qv.RECIPES["int8_per_row"]).metrics["sqnr_db"])
    done = CliRunner().invoke(quantviz, ["explain", str(path), "a.weight", "3,7", *asked[2:]])
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["x"] == pytest.approx(float(x[3, 7]))


def test_a_dtype_that_is_not_known_is_not_read_and_ends_nothing(tmp_path):
    tensors = {
        "layers.0.mlp.up_proj.weight": torch.ones(4, 4),
        "layers.0.mlp.down_proj.weight": torch.ones(4),
    }
    save_file(tensors, tmp_path / "a.safetensors")
    raw = (tmp_path / "a.safetensors").read_bytes()
    (tmp_path / "b.safetensors").write_bytes(raw.replace(b'"F32","shape":[4,4]', b'"F13","shape":[4,4]'))
    found = qv.audit(tmp_path / "b.safetensors", tmp_path / "a.safetensors")
    statuses = {each.tensor: each.status for each in found.tensors}
    assert statuses == {"layers.0.mlp.up_proj.weight": "refused", "layers.0.mlp.down_proj.weight": "same"}
