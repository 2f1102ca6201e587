"""Runs of MiniLM, a BERT of transformers with real weights, captured and compared by the command."""

import json
import math

import numpy as np
import pytest
from click.testing import CliRunner
from safetensors.numpy import load_file

import quantviz as qv
from quantviz.cli import quantviz
from tests.helpers.minilm_runs import BROKEN, RECIPES, numpys_numbers, write_minilm_runs

# The filter is for torch's own warnings, while transformers is imported.
pytestmark = [pytest.mark.nightly, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with the runs."""
    return write_minilm_runs(tmp_path_factory.mktemp("runs"))


def command(folder, *arguments, runs=tuple(RECIPES), status=0):
    paths = [folder / f"{name}.safetensors" for name in ("float", *runs)]
    done = CliRunner().invoke(quantviz, ["runs", *map(str, (*paths, *arguments)), "--no-progress"])
    assert done.exit_code == status, (done.output, done.exception)
    return done


def test_a_broken_layer_of_a_transformer_is_where_the_error_jumps(folder):
    written = load_file(folder / "float.safetensors")
    # The model's own list of hidden states, which no hook of ours has made.
    hidden = np.load(folder / "hidden.npy")
    for number in range(6):
        np.testing.assert_array_equal(written[f"encoder.layer.{number}.output.LayerNorm"], hidden[number + 1])
    found = qv.compare_runs(*(folder / f"{name}.safetensors" for name in ("float", "broken")))
    counts = found.counts("broken")
    assert counts["compared"] == sum(counts.values()) > 60
    assert found.largest_jump("broken").tensor.name == BROKEN
    assert found.largest_jump("broken").of_op
    # What the second layer's attention adds up is a little worse in each run of 8 bits.
    assert found.jump("broken").tensor.name == "encoder.layer.1.attention.self"
    worst = min(found.by_op("broken"), key=lambda each: each.sqnr_db)
    assert worst.sqnr_db == found.worst("broken")[0].sqnr_db < 20


def test_the_commands_records_are_numpys_numbers_and_the_gate_fails(folder):
    command(folder, "--fail-under=-20")
    done = command(folder, "--fail-under", 20, "--format", "json", status=1)
    rows = json.loads(done.stdout)
    summary = rows[0].pop("summary")
    assert f"broken: the largest jump is at {BROKEN} (Linear)" in summary
    assert "int8: the largest jump" not in summary
    assert {row["run"] for row in rows} == set(RECIPES)
    for run in RECIPES:
        of_run = {row["tensor"]: row for row in rows if row["run"] == run}
        expected = numpys_numbers(folder, run)
        assert of_run.keys() == expected.keys()
        for name, (sqnr, cosine, far) in expected.items():
            row = of_run[name]
            if math.isinf(sqnr):
                assert row["sqnr_db"] is None or math.isinf(float(row["sqnr_db"]))
                continue
            assert row["sqnr_db"] == pytest.approx(sqnr, abs=1e-6)
            assert row["cosine"] == pytest.approx(cosine, abs=1e-9)
            assert row["max_error"] == far


def test_the_gate_opens_just_below_the_worst_tensor_of_each_run(folder):
    worst = {run: min(sqnr for sqnr, _, _ in numpys_numbers(folder, run).values()) for run in RECIPES}
    assert worst["int8"] > worst["int4"] + 10
    for run, sqnr in worst.items():
        command(folder, f"--fail-under={sqnr - 0.01}", runs=[run])
        command(folder, f"--fail-under={sqnr + 0.01}", runs=[run], status=1)
