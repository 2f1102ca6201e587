"""Long work: off the shared path, one at a time, within a budget, and while it is waited for."""

import threading

import pytest
import torch

import quantviz as qv
from quantviz.analysis.better_schemes import best_of
from quantviz.budget import Ended, StepCounter, TimeBudget, spending
from quantviz.jobs import Jobs
from quantviz.lab.state import opening
from quantviz.sources import parse_source
from quantviz.streaming.threads import shared_out
from quantviz.ui.shell import long_work, startup

SLOW = qv.Scheme.parse("int8,symmetric,per_group(size=2),mse,course")


class Clock:
    """A clock that goes on by a second at each look."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        self.now += 1.0
        return self.now


def refusal(work):
    with pytest.raises((qv.QuantVizError, Ended)) as refused:
        work()
    problem = getattr(refused.value, "problem", refused.value)
    assert problem.message("zh")
    return problem


@pytest.fixture
def turns(monkeypatch):
    made = startup.RunQueue()
    monkeypatch.setattr(long_work, "run_queue", lambda: made)
    return made


def test_a_search_within_a_budget_ends_with_a_sentence():
    x = torch.randn(64, 64)
    with spending(TimeBudget(5.0, clock=Clock())):
        assert refusal(lambda: qv.quantize(x, SLOW)).key == "work.too_long"
    with spending(TimeBudget(1e9, clock=Clock())):
        found = qv.quantize(x[:8], SLOW)
    assert torch.equal(found.q, qv.quantize(x[:8], SLOW).q)


def test_a_pass_in_parts_ends_likewise_on_every_thread():
    for threads in (1, 3):
        done = []
        with spending(TimeBudget(10.0, clock=Clock())):
            assert refusal(lambda: shared_out(done.extend, range(1000), threads)).key == "work.too_long"  # noqa: B023
        assert len(done) < 20


def test_what_will_take_too_long_is_refused_before_it_does():
    """After the first parts the rest is estimated."""
    clock = Clock()
    with spending(TimeBudget(100.0, clock=clock)):
        progress = StepCounter(1000)
        found = refusal(lambda: [progress.step() for _ in range(1000)])
    assert clock.now < 10
    assert float(found.params["seconds"]) > 900


def test_work_that_nobody_waits_for_is_dropped():
    budget = TimeBudget(1e9)
    with spending(budget):
        budget.drop()
        assert refusal(lambda: qv.quantize(torch.randn(64, 64), SLOW)).key == "work.dropped"


def test_of_several_parts_those_that_take_too_long_are_named_and_the_others_shown():
    x, scheme = torch.randn(16, 16), qv.Scheme.parse("int4,symmetric,per_group(size=2),min_max,course")
    tried = [qv.MSE(), qv.Percentile(99.0)]
    searched = qv.Scheme.parse("int4,symmetric,per_group(size=2),mse,course")
    with spending(TimeBudget(2.5, clock=Clock())):
        found = qv.compare_calibrations(x, scheme, tried)
        row = best_of(x, [searched, scheme])
    assert [row.problem and row.problem.key for row in found.rows] == [None, "work.too_long", None]
    assert found.best in (found.rows[0], found.rows[2])
    assert row.scheme == scheme
    dropped = TimeBudget(1e9)
    dropped.drop()
    with spending(dropped):
        assert refusal(lambda: qv.compare_calibrations(x, scheme, tried)).key == "work.dropped"


def test_others_have_the_turn_while_a_job_is_waited_for(monkeypatch, turns):
    made = Jobs()
    monkeypatch.setattr(long_work, "runner", lambda: made)

    def answered(job):
        with turns.take():
            return "found", turns.held

    made._answer = answered
    with turns.take():
        assert long_work.heavily("a", len)
        assert turns.held
    # One whose session has left leaves its place.
    monkeypatch.setattr(long_work.streamlit_private, "is_awaited", lambda: lambda: False)
    goes_on = threading.Event()
    made._answer = lambda job: goes_on.wait(60) and ("found", 1)
    assert refusal(lambda: long_work.heavily("b", len)).key == "work.dropped"
    goes_on.set()


def test_a_search_in_the_lab_is_long_work_and_what_is_no_search_is_not(monkeypatch, turns):
    from quantviz.ui.components import tensor_cache

    asked = []
    monkeypatch.setattr(tensor_cache, "heavily", lambda name, work: asked.append(name) or work())
    source = parse_source("normal(rows=64,cols=65,seed=99)")
    searched = qv.Scheme.parse("int4,symmetric,per_tensor,mse,course")
    state = opening().with_source(source).replace(scheme=searched)
    found = tensor_cache.study_of(state)
    tensor_cache.gaussian_db(state.scheme, source.shape)
    assert [name.partition(" ")[0] for name in asked][-1] == "gaussian"
    assert any("search" in name for name in asked)
    assert torch.equal(found.result.x_hat, qv.quantize(source.tensor(), searched).x_hat)
    count = len(asked)
    tensor_cache.study_of(state.replace(scheme=qv.Scheme("int4")))
    tensor_cache.study_of(state.with_source(parse_source("normal(rows=8,cols=8,seed=99)")))
    assert len(asked) == count


def test_a_pass_over_many_elements_lets_others_have_the_turn(monkeypatch, turns):
    from quantviz.ui.components import tensor_cache
    from quantviz.ui.shell import shared_cache

    monkeypatch.setattr(shared_cache, "run_queue", lambda: turns)
    held = {}
    for side in (8, 512):
        source = parse_source(f"normal(rows={side},cols={side},seed=97)")
        with turns.take():
            tensor_cache.kept(source, "whether the turn is held", lambda: held.update({side: turns.held}))  # noqa: B023
            assert turns.held
    assert held == {8: True, 512: False}
