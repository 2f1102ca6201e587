"""Methods held to packages: to what they answered about recorded layers, and to those that run in no time.

`record_scaling.py` makes the record. Scales are compared to float32's accuracy; where a search ends at
another point, its error under ours is compared, one-sided.
"""

import json

import pytest
import torch

from quantviz.layers.methods import awq
from quantviz.layers.methods.awq import AWQ
from quantviz.layers.methods.block_scales import FourOverSix, scheme_of_error
from quantviz.layers.methods.contract import Task
from tests.engines.fouroversix import trials
from tests.layers.methods.compare import LLM_COMPRESSOR, MODELOPT, PAGE, TORCHAO, layer, page, record, rows
from tests.layers.methods.compare_trained import PAGE as TRAINED_PAGE
from tests.layers.methods.compare_trained import TRAINED, learned
from tests.layers.methods.record_scaling import COUNT, layers

LAYERS = range(COUNT)


def test_the_record_is_of_the_layers_that_its_script_makes():
    assert set(json.loads(record()["about"].tobytes())["producers"]) >= {"torchao", "nvidia-modelopt"}
    for number, (w, x) in enumerate(layers()):
        assert all(torch.equal(one, other) for one, other in zip((w, x), layer(number), strict=True))


def test_the_page_has_the_rows_that_are_measured_and_explains_each_that_differs():
    found = list(rows())
    assert PAGE.read_text(encoding="utf-8") == page(found)
    for row in found:
        assert row.layers >= 20
        assert row.agree >= (0.9 if "7.5 steps" in row.why else 0.95) * row.total
        assert (row.agree == row.total) == (not row.why)


def test_awqs_scales_of_torchao():
    same = 0
    for number in LAYERS:
        w, x = layer(number)
        task = Task(w.double(), x.double(), TORCHAO, None)
        trace = AWQ().basis(task).trace
        theirs = torch.from_numpy(record()["torchao_awq"][number]).double()
        equal = torch.allclose(trace.scales, theirs, rtol=1e-5)
        same += equal
        assert equal or min(trace.losses) <= awq._loss(task, theirs)
    assert same >= COUNT - 2


def test_awqs_scales_and_losses_of_modelopt():
    same = 0
    for number in LAYERS:
        w, x = layer(number)
        task = Task(w.double(), x.double(), MODELOPT, None)
        trace = AWQ("modelopt").basis(task).trace
        signal = float((x.double() @ w.double().T).square().mean())
        theirs = torch.from_numpy(record()["modelopt_awq_losses"][number]).double()
        torch.testing.assert_close(torch.tensor(trace.losses).double() * signal, theirs, rtol=2e-2, atol=0)
        same += torch.allclose(
            trace.scales, torch.from_numpy(record()["modelopt_awq"][number]).double(), rtol=1e-5
        )
    assert same >= COUNT - 2


def test_awqs_scales_of_llm_compressor_which_tries_no_scaling_first():
    same = 0
    for number in LAYERS:
        w, x = layer(number)
        task = Task(w.double(), x.double(), LLM_COMPRESSOR, None)
        trace = AWQ("llm_compressor").basis(task).trace
        theirs = torch.from_numpy(record()["llm_compressor_awq"][number])
        equal = torch.allclose(trace.scales, theirs, rtol=2e-5)
        same += equal
        # Ties at 7.5 steps move the error of equal scales by as much.
        assert equal or 0.97 * min(trace.losses) <= awq._loss(task, theirs)
    assert same >= COUNT - 2
    plain = Task(torch.ones(2, 32).double(), torch.eye(32).double(), LLM_COMPRESSOR, None)
    kept = AWQ("llm_compressor").basis(plain).trace
    assert kept.scales.tolist() == [1.0] * 32
    assert not kept.scaled


@pytest.mark.parametrize(("kind", "number"), [(0, 0), (0, 10), (1, 17)])
def test_learned_rounding_ends_where_its_page_says(kind, number):
    method, *_ = TRAINED[kind]
    found = learned(number, kind)
    lines = TRAINED_PAGE.read_text(encoding="utf-8").splitlines()
    assert sum(each.startswith(f"| {method.id} ") for each in lines) == COUNT
    [written] = [each for each in lines if each.startswith(f"| {method.id} | {number} |")]
    assert found.times == pytest.approx(float(written.split("|")[-2]), abs=0.02)
    assert found.theirs == pytest.approx(float(written.split("|")[-4]), rel=1e-2)


def test_ends_of_fouroversix():
    count = 0
    for trial in trials():
        if trial.x.dim() == 2 and trial.x.shape[1] % 16 == 0 and trial.x.dtype == torch.float32:
            task = Task(trial.x.double(), torch.ones(2, trial.x.shape[1]).double(), scheme_of_error(), None)
            if not 1e-30 < float(trial.x.abs().max()) < 1e30:
                continue
            count += 1
            assert torch.equal(FourOverSix().round(task).result.q, task.nearest.q)
    assert count >= 10
