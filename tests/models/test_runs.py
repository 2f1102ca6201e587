"""Runs of a model: captured into a file, and compared tensor by tensor."""

import json
import math
import pickle
from dataclasses import dataclass

import numpy as np
import onnx
import pytest
import torch
from click.testing import CliRunner
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn

import quantviz as qv
from quantviz.cli import quantviz as command
from quantviz.models import run_difference
from quantviz.models.run_file import RunWriter
from quantviz.models.worst_part import worst_part
from quantviz.text import languages
from tests.helpers.drawn import normal as drawn
from tests.helpers.onnx_pair import write_onnx_pair


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(6, 8)
        self.act = nn.ReLU(inplace=True)
        self.down = nn.Linear(8, 6)

    def forward(self, x):
        y = self.down(self.act(self.up(x)))
        return x + y, (y, y.argmax(-1) > 2)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block()
        self.drop = nn.Dropout()
        self.lm_head = nn.Linear(6, 5)

    def forward(self, x, twice=False):
        x, _ = self.block(x)
        if twice:
            x, _ = self.block(x)
        return {"logits": self.lm_head(self.drop(x))}


@pytest.fixture
def model():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Model().eval()


def stored(path):
    with safe_open(path, "pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, file.metadata()  # noqa: SIM118


# ---- captures ----


def test_every_modules_output_is_written_once_in_the_order_of_execution(model, tmp_path):
    x = drawn(2, 3, 6)
    run = qv.capture(model, [x], tmp_path / "float.safetensors")
    assert [(each.name, each.op) for each in run] == [
        ("block.up", "Linear"),
        # It changes its input in place: what is written of either is from its own time.
        ("block.act", "ReLU"),
        ("block.down", "Linear"),
        ("block", "Block"),
        ("lm_head", "Linear"),
        ("logits", "Model"),
    ]
    assert [note.key for note in run.notes] == ["run_left_aside"]
    assert "block[1][1]" in run.notes[0].message("zh")
    tensors, texts = stored(tmp_path / "float.safetensors")
    assert texts["format"] == "quantviz run 1"
    assert json.loads(texts["order"]) == list(run.names)
    up = model.block.up(x)
    assert torch.equal(tensors["block.up"], up)
    assert (up < 0).any()
    assert torch.equal(tensors["block.act"], up.relu())
    assert torch.equal(tensors["logits"], model(x)["logits"])
    again = qv.CapturedRun.open(tmp_path / "float.safetensors")
    assert again.tensors == run.tensors
    assert again.tensors[0].axes == ("batch", "token", "channel")
    assert not model.block.up._forward_hooks


def test_the_cosine_of_equal_tensors_is_1(tmp_path):
    path = write_run(tmp_path / "x.safetensors", {"x": torch.ones(3)})
    assert [each.cosine for each in qv.compare_runs(path, path).differences] == [1.0]


def test_a_change_in_place_is_seen_in_inference_mode_too(model, tmp_path):
    with torch.inference_mode():
        run = qv.capture(model, [drawn(2, 3, 6)], tmp_path / "run.safetensors")
    assert run.names == ("block.up", "block.act", "block.down", "block", "lm_head", "logits")


def test_batches_are_joined_and_calls_counted(model, tmp_path):
    path = tmp_path / "run.safetensors"
    batches = [(drawn(2, 3, 6),), {"x": drawn(1, 3, 6, seed=1)}, drawn(1, 4, 6)]
    run = qv.capture(model, batches, path, ["block.up"])
    assert {each.name: each.shape for each in run} == {"block.up": (3, 3, 8), "block.up@2": (1, 4, 8)}
    tensors, _ = stored(path)
    assert torch.equal(tensors["block.up"][2:], model.block.up(drawn(1, 3, 6, seed=1)))
    twice = qv.capture(model, [{"x": drawn(2, 6), "twice": True}], path, ["*.down"])
    assert twice.names == ("block.down", "block.down#2")
    model.bfloat16()
    assert qv.capture(model, [drawn(2, 6).bfloat16()], path).tensors[0].dtype == "bfloat16"


@dataclass
class Answer:
    logits: torch.Tensor
    cache: object


class Crossed(nn.Module):
    """Modules with the names that a second call, and another shape, would get."""

    def __init__(self):
        super().__init__()
        for name in ("a#2", "a", "a@1"):
            self.add_module(name, nn.Linear(6, 6))

    def __getattr__(self, name):
        return super().__getattr__({"first": "a#2", "last": "a@1"}.get(name, name))

    def forward(self, x):
        return Answer(self.last(self.a(self.a(self.first(x)))) * 2, {x})


def test_no_two_outputs_get_one_name_and_none_is_lost(tmp_path):
    model = Crossed().eval()
    run = qv.capture(model, [drawn(5, 6), drawn(2, 3, 6)], tmp_path / "run.safetensors")
    expected = []
    for x in (drawn(5, 6), drawn(2, 3, 6)):
        first = model.first(x)
        outputs = [first, model.a(first), model.a(model.a(first)), model.last(model.a(model.a(first)))]
        expected += [*outputs, 2 * outputs[-1]]
    tensors, _ = stored(tmp_path / "run.safetensors")
    assert len(set(run.names)) == len(expected) == 10
    assert all(map(torch.equal, [tensors[name] for name in run.names], expected))
    # A set has no order to name tensors by.
    assert "cache" in run.notes[0].message("en")


def refused(key, call, *arguments, **more):
    with pytest.raises(qv.QuantVizError) as error:
        call(*arguments, **more)
    assert error.value.key == key
    assert all(error.value.message(language) for language in languages())
    return error.value


def test_a_wrong_model_batch_or_file_gets_a_sentence(model, tmp_path):
    path = tmp_path / "run.safetensors"
    refused("runs.no_model", qv.capture, 7, [drawn(2, 6)], path)
    refused("collect.training", qv.capture, Model().train(), [drawn(2, 6)], path)
    refused("collect.one_batch", qv.capture, model, drawn(2, 6), path)
    refused("collect.failed", qv.capture, model, [drawn(2, 7)], path)
    refused("runs.unknown", qv.capture, model, [drawn(2, 6)], path, ["lm"])
    refused("runs.nothing_ran", qv.capture, model, [], path)
    refused("cli.cannot_write", qv.capture, model, [drawn(2, 6)], tmp_path / "none" / "run.safetensors")
    assert not model.block.up._forward_hooks
    assert list(tmp_path.iterdir()) == []


def described(path, **texts):
    save_file({"a": torch.ones(2, 2), "b": torch.ones(2)}, path, {"format": "quantviz run 1", **texts})
    return path


def test_a_damaged_description_gets_a_sentence(tmp_path):
    good = {"order": '["a","b"]', "op": '{"a":"Add"}', "axes": '{"a":["row",""]}'}
    run = qv.CapturedRun.open(described(tmp_path / "good.safetensors", **good))
    assert [(each.op, each.axes) for each in run] == [("Add", ("row", "")), ("", ("",))]
    deep = "[" * 100_000
    for key, words in (
        ("order", ""),
        ("order", deep),
        ("order", '{"a":1}'),
        ("order", '["a"]'),
        ("order", '["a","a"]'),
        ("order", '["a","b","c"]'),
        ("order", '["a",2]'),
        ("op", "[]"),
        ("op", '{"a":["Add"]}'),
        ("axes", deep),
        ("axes", '{"a":["row"]}'),
        ("axes", '{"a":"xy"}'),
        ("axes", '{"b":[3]}'),
    ):
        bad = described(tmp_path / "bad.safetensors", **{**good, key: words})
        assert "bad.safetensors" in refused("runs.damaged", qv.CapturedRun.open, bad).message("en")


# ---- comparisons ----


def write_run(path, tensors, ops=None):
    """Write a run's file by hand, in the order of the tensors."""
    texts = {
        "format": "quantviz run 1",
        "order": json.dumps(list(tensors)),
        "op": json.dumps(ops or {}),
        "axes": json.dumps({}),
    }
    save_file({name: torch.as_tensor(values) for name, values in tensors.items()}, path, texts)
    return path


def test_the_numbers_are_those_of_all_values_whatever_the_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(run_difference, "_ELEMENTS_PER_READ", 7)
    x = {"a": drawn(3, 2, 5), "logits": drawn(4, 6, seed=2)}
    y = {name: each + 0.1 * drawn(*each.shape, seed=9) for name, each in x.items()}
    found = qv.compare_runs(
        write_run(tmp_path / "x.safetensors", x), write_run(tmp_path / "y.safetensors", y)
    )
    assert found.labels == ("y",)
    for each in found.of("y"):
        one = x[each.name].double()
        error = y[each.name].double() - one
        ratio = float(one.square().sum() / error.square().sum())
        assert each.sqnr_db == pytest.approx(10 * math.log10(ratio), abs=1e-9)
        cosine = torch.cosine_similarity(one.flatten(), (one + error).flatten(), 0)
        assert each.cosine == pytest.approx(float(cosine), abs=1e-12)
        place = tuple(int(i) for i in np.unravel_index(int(error.abs().argmax()), error.shape))
        assert (each.max_error, each.max_error_at) == (float(error.abs().max()), place)
    logits = found.of("y")[1]
    p, q = (each["logits"].double().log_softmax(-1) for each in (x, y))
    kl = (p.exp() * (p - q)).sum(-1) / math.log(2)
    assert logits.kl == logits.logits.kl == pytest.approx(float(kl.mean()), abs=1e-12)
    assert logits.logits.kl_median == pytest.approx(float(kl.quantile(0.5)), abs=1e-12)
    assert logits.logits.kl_99 == pytest.approx(float(kl.quantile(0.99)), abs=1e-12)
    assert logits.logits.kl_max == pytest.approx(float(kl.max()), abs=1e-12)
    assert logits.same_top == logits.logits.same_top == float((p.argmax(-1) == q.argmax(-1)).float().mean())
    assert math.isnan(found.of("y")[0].kl)
    assert len(pickle.loads(pickle.dumps(found)).differences) == 2
    other = qv.compare_runs(tmp_path / "x.safetensors", [tmp_path / "y.safetensors"], logits=["a"])
    assert [math.isnan(each.kl) for each in other.of("y")] == [False, True]


def test_the_perplexity_is_that_of_the_second_half_of_each_row(tmp_path, monkeypatch):
    """llama.cpp: exp of the mean −ln p of the next token, from the middle of a context."""
    monkeypatch.setattr(run_difference, "_ELEMENTS_PER_READ", 22)
    x = {"logits": drawn(3, 8, 11)}
    y = {"logits": x["logits"] + 0.3 * drawn(3, 8, 11, seed=9)}
    files = [write_run(tmp_path / f"{k}.safetensors", run) for k, run in enumerate((x, y))]
    tokens = torch.randint(0, 11, (3, 8), generator=torch.Generator().manual_seed(4))

    def perplexity(run, first):
        scored, wanted = run["logits"].double()[:, first:-1], tokens[:, first + 1 :]
        return math.exp(torch.nn.functional.cross_entropy(scored.flatten(0, 1), wanted.flatten()))

    for skip, first in ((None, 4), (0, 0), (6, 6)):
        found = qv.compare_runs(*files, tokens=tokens, skip=skip)
        logits = found.of("1")[0].logits
        assert logits.perplexity == pytest.approx(perplexity(y, first), rel=1e-12)
        assert logits.reference_perplexity == pytest.approx(perplexity(x, first), rel=1e-12)
        assert any(f"{logits.perplexity:.5g}" in sentence for sentence in found.messages())
    np.save(tmp_path / "read.npy", tokens.numpy())
    answer = CliRunner().invoke(
        command,
        ["runs", *map(str, files), "--tokens", str(tmp_path / "read.npy"), "-o", str(tmp_path / "a.html")],
    )
    assert answer.exit_code == 0, answer.output
    assert f"{perplexity(y, 4):.4g}" in (tmp_path / "a.html").read_text("utf-8")
    for wrong, skip in (
        (tokens[:2], None),
        (tokens + 5, None),
        (tokens - 1, None),
        (tokens / 2, None),
        (tokens, 7),
        ("x", 0),
    ):
        with pytest.raises(qv.QuantVizError):
            qv.compare_runs(*files, tokens=wrong, skip=skip)


def test_logits_that_were_cut_off_move_what_lies_below(tmp_path):
    """ikawrakow/ik_llama.cpp 325, rebuilt: a base kept from 16 below its largest logit on makes all of a KL
    that a good run has. By llama.cpp's sums in NumPy, in nats, and its percentile between two rows.
    """
    draw = np.random.default_rng(3)
    base = (draw.normal(size=(40, 2000)) * 6).astype(np.float32)
    base[:, 7] = base.max(1) + 4
    kept = np.maximum(base, base.max(1, keepdims=True) - 16)
    run = base + 0.01 * draw.normal(size=base.shape).astype(np.float32)

    def kl(first, second):
        p, q = (each.astype(np.float64) - each.max(1, keepdims=True) for each in (first, second))
        p, q = (each - np.log(np.exp(each).sum(1, keepdims=True)) for each in (p, q))
        return np.sort((np.exp(p) * (p - q)).sum(1))

    means = []
    for first in (base, kept):
        files = [
            write_run(tmp_path / f"{name}.safetensors", {"logits": torch.from_numpy(each)})
            for name, each in (("first", first), ("run", run))
        ]
        found = qv.compare_runs(*files).of("run")[0].logits
        rows = kl(first, run)
        at = int(0.99 * 39)
        wanted = (
            rows.mean(),
            rows[19:21].mean(),
            rows[at] + (0.99 * 39 - at) * (rows[at + 1] - rows[at]),
            rows[-1],
        )
        ours = (found.kl, found.kl_median, found.kl_99, found.kl_max)
        assert [each * math.log(2) for each in ours] == pytest.approx(wanted, rel=1e-6)
        assert found.same_top == (first.argmax(1) == run.argmax(1)).mean()
        means.append(found.kl)
    assert means[1] > 5 * means[0]


def test_no_tensor_is_dropped(tmp_path):
    nan = float("nan")
    inf = float("inf")
    x = {
        "same": [1.0, 2.0],
        "mask": [-inf, 1.0, nan],
        "broken": [1.0, 2.0],
        "other_shape": [[1.0, 2.0]],
        "gone": [1.0],
        "flag": [True, False],
    }
    y = {
        **{name: x[name] for name in ("same", "flag")},
        **{"mask": [-inf, 1.5, nan], "broken": [inf, nan], "other_shape": [1.0, 2.0], "new": [3.0]},
    }
    found = qv.compare_runs(
        write_run(tmp_path / "x.safetensors", x), write_run(tmp_path / "y.safetensors", y)
    )
    by_name = {each.name: each for each in found.of("y")}
    assert {name: each.status for name, each in by_name.items()} == {
        "same": "compared",
        "mask": "compared",
        "broken": "not_finite",
        "other_shape": "shape",
        "gone": "missing",
        "flag": "not_read",
        "new": "extra",
    }
    assert by_name["same"].sqnr_db == math.inf
    assert (by_name["mask"].left_out, by_name["mask"].max_error) == (2, 0.5)
    assert by_name["broken"].not_finite == 2
    assert sum(found.counts("y").values()) == 7
    for language in languages():
        said = " ".join(found.messages(language))
        assert all(name in said for name in ("broken", "other_shape", "gone", "flag", "new", "mask"))
        reasons = {row["tensor"]: row["reason"] for row in found.rows(language)}
        assert not reasons["same"]
        assert all(reasons[name] for name in ("broken", "other_shape", "gone", "flag", "new"))
    assert found.first_error("y").name == "mask"
    # Of a file that is cut short nothing is read: that is told of each tensor.
    cut = tmp_path / "cut.safetensors"
    cut.write_bytes((tmp_path / "x.safetensors").read_bytes()[:-40])
    assert qv.compare_runs(tmp_path / "x.safetensors", cut).counts("cut")["not_read"] >= 5


def run_of(path, tensors):
    """Write a run of (name, operation, values)."""
    with RunWriter(path) as writer:
        writer.begin_batch()
        for name, op, values in tensors:
            writer.add(name, op, (), values)
        writer.finish()
    return path


def ends(found):
    return {each.name: (each.status, each.beside) for each in found.differences}


@pytest.mark.parametrize(
    "ops",
    [
        ("Conv2d", "ReLU"),
        ("Linear", "ReLU"),
        ("Conv2d", "BatchNorm2d"),
        ("Conv2d", "BatchNorm2d", "Hardswish"),
        ("QFunctional", "ReLU6"),
        ("Conv", "BatchNormalization", "Clip"),
        ("Conv", "Add", "Relu"),
    ],
)
def test_a_fused_tensor_is_compared_with_the_last_operation_in_it(tmp_path, ops):
    """The run has only the first name; each operation moves the values away from those before it."""
    values = [drawn(2, 4, 3, 3)]
    for _ in ops[1:]:
        values.append((2 * values[-1] + 1).clamp(min=0))
    tensors = [(f"op{k}", op, value) for k, (op, value) in enumerate(zip(ops, values, strict=True))]
    float_run = run_of(tmp_path / "float.safetensors", [*tensors, ("end", "Linear", drawn(2, 4, 3, 3))])
    fused = [("op0", ops[0], values[-1] + 0.01), ("end", "Linear", drawn(2, 4, 3, 3))]
    found = qv.compare_runs(float_run, run_of(tmp_path / "int8.safetensors", fused))
    last = f"op{len(ops) - 1}"
    assert ends(found) == {
        **{name: ("fused", "") for name, _, _ in tensors[:-1]},
        last: ("compared", "op0"),
        "end": ("compared", ""),
    }
    assert found.worst("int8")[0].sqnr_db > 30
    assert found.jump("int8") is None
    part = worst_part(found, "int8", 8)
    assert part.tensor.name == last
    assert float(np.abs(part.error).max()) == pytest.approx(0.01, rel=1e-3)
    for language in languages():
        said = " ".join(found.messages(language))
        assert f"{last} ↔ op0" in said
        assert "op0" in found.rows(language)[len(ops) - 1]["reason"]


def test_a_run_of_which_some_tensors_were_not_written_is_not_taken_for_a_fused_one(tmp_path):
    conv = drawn(2, 4, 3, 3)
    tensors = [("conv", "Conv2d", conv), ("relu", "ReLU", conv.relu()), ("fc", "Linear", conv + 1)]
    float_run = run_of(tmp_path / "float.safetensors", tensors)
    found = qv.compare_runs(
        float_run, run_of(tmp_path / "conv.safetensors", [("conv", "Conv2d", conv + 0.01)])
    )
    assert ends(found) == {"conv": ("compared", ""), "relu": ("missing", ""), "fc": ("missing", "")}
    # Neither is one whose next operation is of another kind, or of another shape.
    for op, values in (("Linear", 2 * conv), ("ReLU", (2 * conv)[:, :2])):
        float_run = run_of(tmp_path / "float.safetensors", [tensors[0], ("next", op, values)])
        other = run_of(tmp_path / "conv.safetensors", [("conv", "Conv2d", 2 * conv)])
        assert ends(qv.compare_runs(float_run, other))["conv"] == ("compared", "")


def test_a_row_of_logits_with_nan_in_both_leaves_the_others_their_kl(tmp_path):
    x = drawn(4, 6)
    y = x + 0.1 * drawn(4, 6, seed=1)
    expected = torch.nn.functional.kl_div(
        y[1:].double().log_softmax(-1), x[1:].double().log_softmax(-1), log_target=True, reduction="none"
    )
    x[0, 2] = y[0, 2] = math.nan
    files = [write_run(tmp_path / f"{k}.safetensors", {"logits": each}) for k, each in enumerate((x, y))]
    found = qv.compare_runs(*files).of("1")[0]
    assert found.logits.kl == pytest.approx(float(expected.sum(-1).mean()) / math.log(2), rel=1e-9)
    assert (found.status, found.left_out) == ("compared", 1)


def level(sqnr_db):
    """Return values of a tensor whose error against ones has this SQNR."""
    return torch.ones(4) * (1 + 10 ** (-sqnr_db / 20)) if sqnr_db < math.inf else torch.ones(4)


@pytest.mark.parametrize(
    ("levels", "first", "jump", "largest"),
    [
        ([("Add", math.inf), ("Mul", 40.0), ("Add", 35.0), ("Mul", 32.0)], 1, None, None),
        # Sums have less error than products: a sum is compared with sums.
        ([("Add", 50.0), ("Mul", 20.0), ("Add", 38.0)], 0, 1, 1),
        ([("Add", 50.0), ("Mul", 41.0), ("Add", 39.0)], 0, 2, 2),
        ([("Add", 50.0), ("Add", 41.0), ("Add", 30.0)], 0, 2, 2),
        ([("Add", 50.0), ("Add", 39.0), ("Add", 10.0), ("Add", 9.0)], 0, 1, 2),
        # A product of what fell is not where it fell.
        ([("Add", 50.0), ("Add", 39.0), ("Mul", 38.0), ("Add", 10.0), ("Mul", 1.0)], 0, 1, 3),
        ([("Add", math.inf), ("Add", 10.0)], 1, None, None),
        ([("Add", math.inf), ("Add", math.inf)], None, None, None),
    ],
)
def test_the_first_error_the_first_jump_and_the_largest(tmp_path, levels, first, jump, largest):
    names = [str(k) for k in range(len(levels))]
    ops = {name: op for name, (op, _) in zip(names, levels, strict=True)}
    run = {name: level(db) for name, (_, db) in zip(names, levels, strict=True)}
    reference = write_run(tmp_path / "x.safetensors", dict.fromkeys(names, [1.0] * 4), ops)
    found = qv.compare_runs(reference, write_run(tmp_path / "y.safetensors", run, ops))
    assert (first is None) == (found.first_error("y") is None)
    assert first is None or found.first_error("y").name == names[first]
    for found_jump, place in ((found.jump("y"), jump), (found.largest_jump("y"), largest)):
        assert (found_jump and found_jump.tensor.name) == (None if place is None else names[place])
    for language in languages():
        # The largest has a sentence of its own where it is not the first.
        assert len(list(found.messages(language))) == 4 + (jump != largest) - 2 * (first is None)


def test_a_file_without_order_has_no_first_error(tmp_path):
    for name, values in (("x", 1.0), ("y", 1.5)):
        save_file({"b": torch.full((2, 2), values), "a": torch.ones(3)}, tmp_path / f"{name}.safetensors")
    found = qv.compare_runs(tmp_path / "x.safetensors", tmp_path / "y.safetensors")
    assert not found.is_ordered
    assert found.first_error("y") is None
    assert found.jump("y") is None
    assert found.worst("y")[0].name == "b"
    refused("runs.label", found.of, "x")
    refused("runs.no_runs", qv.compare_runs, tmp_path / "x.safetensors", [])
    save_file({"c": torch.ones(3)}, tmp_path / "z.safetensors")
    refused("runs.nothing_alike", qv.compare_runs, tmp_path / "x.safetensors", tmp_path / "z.safetensors")


@pytest.mark.parametrize("shape", [(7,), (9, 11), (2, 3, 40, 30), (2, 1, 2, 5, 6)])
def test_each_pixel_shows_its_cell_of_largest_error(tmp_path, shape, monkeypatch):
    from quantviz.models import worst_part as module

    monkeypatch.setattr(module, "_ELEMENTS_PER_READ", 64)
    x = drawn(*shape)
    y = x + 0.1 * drawn(*shape, seed=3)
    runs = [write_run(tmp_path / f"{k}.safetensors", {"t": each}) for k, each in enumerate((x, y))]
    found = qv.compare_runs(*runs)
    part = worst_part(found, "1", 8)
    place = found.of("1")[0].max_error_at
    one, two = (each[place[:-2]].numpy().reshape(-1, shape[-1]) for each in (x, y))
    assert part.matrix == one.shape
    error = two - one
    height, width = part.error.shape
    for row in range(height):
        rows = slice(row * one.shape[0] // height, (row + 1) * one.shape[0] // height)
        for col in range(width):
            cols = slice(col * one.shape[1] // width, (col + 1) * one.shape[1] // width)
            own = error[rows, cols].flatten()
            at = int(np.abs(own).argmax())
            assert part.error[row, col] == own[at]
            assert part.reference[row, col] == one[rows, cols].flatten()[at]
    assert float(np.abs(part.error).max()) == pytest.approx(found.of("1")[0].max_error)


# ---- ONNX ----


@pytest.fixture(scope="module")
def qdq(tmp_path_factory):
    return write_onnx_pair(tmp_path_factory.mktemp("onnx"))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_quantized_onnx_model_is_compared_by_the_names_of_its_values(qdq, tmp_path):
    x = drawn(6, 8, seed=5)
    paths = [tmp_path / f"{name}.safetensors" for name in ("float", "int8")]
    for path, batch in zip(paths, ([{"x": x.numpy()}], [x[:2], (x[2:],)]), strict=True):
        run = qv.capture(qdq / f"{path.stem}.onnx", batch, path)
    assert {"QuantizeLinear", "DequantizeLinear"} <= {each.op for each in run}
    tensors, _ = stored(paths[0])
    expected = (x @ drawn(8, 16, seed=1)).relu() @ drawn(16, 4, seed=2)
    torch.testing.assert_close(tensors["logits"], expected)
    found = qv.compare_runs(*paths)
    counts = found.counts("int8")
    # The quantizer leaves ReLU to the range of the codes: what is called "act" is what the next node takes.
    assert (counts["compared"], counts["missing"], counts["extra"]) == (2, 1, len(run) - 2)
    assert [each.name for each in found.compared("int8")] == ["act", "logits"]
    assert stored(paths[1])[0]["act"].min() == 0
    assert stored(paths[1])[0]["act_QuantizeLinear_Input"].min() < 0
    assert all(15 < each.sqnr_db < 60 for each in found.compared("int8"))
    assert 0 < found.compared("int8")[-1].logits.kl < 0.1


def test_an_onnx_model_that_cannot_run_gets_a_sentence(qdq, tmp_path, monkeypatch):
    path = tmp_path / "run.safetensors"
    model = qdq / "float.onnx"
    x = drawn(6, 8)
    assert "x" in refused("runs.feeds", qv.capture, model, [{"y": x}], path).message("en")
    refused("runs.feeds", qv.capture, model, [(x, x)], path)
    refused("collect.failed", qv.capture, model, [{"x": [[1.0], [1.0, 2.0]]}], path)
    refused("collect.failed", qv.capture, model, [x[:, :5]], path)
    refused("runs.unknown", qv.capture, model, [x], path, ["logit"])
    refused("file.missing", qv.capture, tmp_path / "none.onnx", [x], path)
    np.save(tmp_path / "x.npy", x.numpy())
    refused("runs.no_onnx", qv.capture, tmp_path / "x.npy", [x], path)
    raw = model.read_bytes()
    broken = tmp_path / "broken.onnx"  # its weight is elsewhere
    broken.write_bytes(raw)
    refused("runs.onnx_failed", qv.capture, broken, [x], path)
    with_no_output = onnx.load(model)
    last = with_no_output.graph.node[-1].output[0]
    nodes = ("QuantizeLinear", [last, "V"], ["code"]), ("DequantizeLinear", ["code", "V"], [])
    with_no_output.graph.node.extend(onnx.helper.make_node(*node) for node in nodes)
    broken.write_bytes(with_no_output.SerializeToString())
    refused("runs.onnx_failed", qv.capture, broken, [x], path)
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    refused("runs.needs_onnxruntime", qv.capture, model, [x], path)
    assert not path.exists()
