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
from quantviz.layers.methods.contract import MethodTask
from tests.engines.fouroversix import trials
from tests.layers.methods.compare import (
    LLM_COMPRESSOR,
    PAGE,
    TORCHAO,
    awq_trace,
    ends_of_search,
    errors_by_ties,
    layer,
    page,
    record,
    rows,
)
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
        assert row.agree >= 0.95 * row.total
        assert (row.agree == row.total) == (not row.why)


def test_awqs_scales_of_torchao():
    same = 0
    for number in LAYERS:
        w, x = layer(number)
        task = MethodTask(w.double(), x.double(), TORCHAO, None)
        trace = awq_trace("paper", number)
        theirs = torch.from_numpy(record()["torchao_awq"][number]).double()
        equal = torch.allclose(trace.scales, theirs, rtol=1e-5)
        same += equal
        # Another end of the search leaves no less under our arithmetic.
        theirs_rounded = next(awq._rounded_trials(task, [theirs]))
        assert equal or min(trace.losses) <= task.output_error(theirs_rounded)
    assert same >= COUNT - 2


def test_awqs_scales_and_losses_of_modelopt():
    same = 0
    for number in LAYERS:
        w, x = layer(number)
        trace = awq_trace("modelopt", number)
        signal = float((x.double() @ w.double().T).square().mean())
        theirs = torch.from_numpy(record()["modelopt_awq_losses"][number]).double()
        torch.testing.assert_close(torch.tensor(trace.losses).double() * signal, theirs, rtol=2e-2, atol=0)
        same += torch.allclose(
            trace.scales, torch.from_numpy(record()["modelopt_awq"][number]).double(), rtol=1e-5
        )
    assert same >= COUNT - 2


def test_awqs_scales_of_llm_compressor_differ_only_where_ties_decide():
    """Its recorded errors lie between the least and the largest that its own ties allow, as at 7.5 steps."""
    apart = []
    for number in LAYERS:
        w, x = layer(number)
        task = MethodTask(w.double(), x.double(), LLM_COMPRESSOR, None)
        ours = awq_trace("llm_compressor", number).scales
        theirs = torch.from_numpy(record()["llm_compressor_awq"][number]).double()
        least, largest = errors_by_ties(task, theirs)
        recorded = float(record()["llm_compressor_awq_error"][number]) * len(x) * len(w)
        assert least * (1 - 1e-5) <= recorded <= largest * (1 + 1e-5)
        if not torch.allclose(ours, theirs, rtol=2e-5):
            apart.append(number)
            ends = ends_of_search(number)
            assert sum(torch.allclose(each, ours) for each in ends) == 1
            assert sum(torch.allclose(each, theirs, rtol=2e-5) for each in ends) == 1
    assert len(apart) <= 2


def test_awq_of_llm_compressor_tries_no_scaling_first():
    plain = MethodTask(torch.ones(2, 32).double(), torch.eye(32).double(), LLM_COMPRESSOR, None)
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
            task = MethodTask(
                trial.x.double(), torch.ones(2, trial.x.shape[1]).double(), scheme_of_error(), None
            )
            if not 1e-30 < float(trial.x.abs().max()) < 1e30:
                continue
            count += 1
            assert torch.equal(FourOverSix().round(task).result.q, task.nearest.q)
    assert count >= 10
