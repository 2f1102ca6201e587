"""Runs of a BERT of transformers, in float and quantized, captured and compared by the command.

It is built as MiniLM (6 layers, 384 channels), with random weights and a small vocabulary.
"""

import json
import math

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from safetensors.numpy import load_file

import quantviz as qv
from quantviz.cli import quantviz

# Of torch's own, while transformers is imported.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
#: The layer whose weights get 2 bits in one of the runs.
BROKEN = "bert.encoder.layer.3.intermediate.dense"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with three runs: in float; int8 by row; and the same with one layer at int2."""
    from transformers import BertConfig, BertForMaskedLM

    sizes = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = BertForMaskedLM(BertConfig(**sizes, vocab_size=96, max_position_embeddings=32)).eval()
    draw = torch.Generator().manual_seed(1)
    batch = {
        "input_ids": torch.randint(96, (2, 12), generator=draw),
        "attention_mask": torch.tensor([[1] * 12, [1] * 8 + [0] * 4]),
    }
    made = tmp_path_factory.mktemp("runs")
    qv.capture(model, [batch], made / "float.safetensors")
    layers = dict(model.named_modules())
    broken = qv.quantize(layers[BROKEN].weight.detach(), "int2,symmetric,per_tensor,min_max,course").x_hat
    with torch.no_grad():
        hidden = model(**batch, output_hidden_states=True).hidden_states
        for layer in layers.values():
            if isinstance(layer, torch.nn.Linear):
                layer.weight.copy_(qv.quantize(layer.weight, "int8_per_row").x_hat)
        qv.capture(model, [batch], made / "int8.safetensors")
        layers[BROKEN].weight.copy_(broken)
        qv.capture(model, [batch], made / "broken.safetensors")
    np.save(made / "hidden.npy", torch.stack(hidden).numpy())
    return made


def command(folder, *arguments, status=0):
    files = [folder / f"{name}.safetensors" for name in ("float", "int8", "broken")]
    done = CliRunner().invoke(quantviz, ["runs", *map(str, (*files, *arguments)), "--no-progress"])
    assert done.exit_code == status, (done.output, done.exception)
    return done


@pytest.mark.nightly
def test_a_broken_layer_of_a_transformer_is_where_the_error_jumps(folder):
    written = load_file(folder / "float.safetensors")
    # The model's own list of hidden states, which no hook of ours has made.
    hidden = np.load(folder / "hidden.npy")
    for number in range(6):
        np.testing.assert_array_equal(
            written[f"bert.encoder.layer.{number}.output.LayerNorm"], hidden[number + 1]
        )
    found = qv.compare_runs(*(folder / f"{name}.safetensors" for name in ("float", "broken")))
    counts = found.counts("broken")
    assert counts["compared"] == sum(counts.values()) > 60
    assert found.jump("broken").tensor.name == BROKEN
    assert found.jump("broken").of_op
    assert qv.compare_runs(folder / "float.safetensors", folder / "int8.safetensors").jump("int8") is None
    worst = min(found.by_op("broken"), key=lambda each: each.sqnr_db)
    assert worst.sqnr_db == found.worst("broken")[0].sqnr_db < 20


@pytest.mark.nightly
def test_the_commands_records_are_numpys_numbers_and_the_gate_fails(folder):
    command(folder, "--fail-under=-20")
    done = command(folder, "--fail-under", 20, "--format", "json", status=1)
    rows = json.loads(done.stdout)
    summary = rows[0].pop("summary")
    assert f"broken: the first jump is at {BROKEN} (Linear)" in summary
    runs = {name: load_file(folder / f"{name}.safetensors") for name in ("float", "int8", "broken")}
    assert {row["run"] for row in rows} == {"int8", "broken"}
    assert len(rows) == 2 * len(runs["float"])
    for row in rows:
        x, y = (runs[name][row["tensor"]].astype(np.float64) for name in ("float", row["run"]))
        noise = np.square(y - x).sum()
        if noise == 0:
            assert row["sqnr_db"] is None or math.isinf(float(row["sqnr_db"]))
            continue
        assert row["sqnr_db"] == pytest.approx(10 * math.log10(np.square(x).sum() / noise), abs=1e-6)
        assert row["max_error"] == np.abs(y - x).max()
        if row["tensor"] == "logits":
            p, q = (each - np.logaddexp.reduce(each, -1, keepdims=True) for each in (x, y))
            assert row["kl"] == pytest.approx((np.exp(p) * (p - q)).sum(-1).mean(), rel=1e-6)
