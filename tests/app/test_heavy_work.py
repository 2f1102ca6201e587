"""Long work of a page: off the shared path, one at a time, within a budget, and while it is waited for."""

import threading
import time

import pytest
import torch

import quantviz as qv
from quantviz.budget import Ended, Progress, Spending, spending
from quantviz.lab.state import opening
from quantviz.sources import parse_source
from quantviz.streaming.threads import shared_out
from quantviz.ui.shell import heavy_work, startup
from quantviz.ui.shell.heavy_work import HeavyWork
from quantviz.ui.shell.shared_cache import Shared

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
    made = startup.Turns()
    monkeypatch.setattr(heavy_work, "turns", lambda: made)
    return made


def wanted():
    return True


def test_a_search_within_a_budget_ends_with_a_sentence():
    x = torch.randn(64, 64)
    with spending(Spending(5.0, clock=Clock())):
        assert refusal(lambda: qv.quantize(x, SLOW)).key == "work.too_long"
    with spending(Spending(1e9, clock=Clock())):
        found = qv.quantize(x[:8], SLOW)
    assert torch.equal(found.q, qv.quantize(x[:8], SLOW).q)


def test_a_pass_in_parts_ends_likewise_on_every_thread():
    for threads in (1, 3):
        done = []
        with spending(Spending(10.0, clock=Clock())):
            assert refusal(lambda: shared_out(done.extend, range(1000), threads)).key == "work.too_long"  # noqa: B023
        assert len(done) < 20


def test_what_will_take_too_long_is_refused_before_it_does():
    """After the first parts the rest is estimated."""
    clock = Clock()
    with spending(Spending(100.0, clock=clock)):
        progress = Progress(1000)
        found = refusal(lambda: [progress.step() for _ in range(1000)])
    assert clock.now < 10
    assert float(found.params["seconds"]) > 900


def test_work_that_nobody_waits_for_is_dropped():
    budget = Spending(1e9)
    with spending(budget):
        budget.drop()
        assert refusal(lambda: qv.quantize(torch.randn(64, 64), SLOW)).key == "work.dropped"


def test_heavy_work_is_done_without_a_turn_in_a_thread_of_its_own(turns):
    with turns.take():
        thread, held = HeavyWork().run("it", lambda: (threading.get_ident(), turns.held), wanted)
        assert turns.held
    assert thread != threading.get_ident()
    assert not held


def test_each_step_gives_way_to_a_run_that_works():
    ways = []
    with spending(Spending(1e9, give_way=lambda: ways.append(1))):
        progress = Progress(5)
        for _ in range(5):
            progress.step()
    assert len(ways) == 5
    made = startup.Turns()
    made.wait_until_idle(60)  # nobody works
    with made.take():
        waits = threading.Thread(target=made.wait_until_idle, args=(60,))
        waits.start()
        assert waits.is_alive()
        made.wait_until_idle(0.0)  # no longer than that
    waits.join(30)
    assert not waits.is_alive()


def test_others_have_the_turn_meanwhile_and_one_piece_is_done_at_a_time(turns):
    heavy, begun, others = HeavyWork(), [], threading.Event()

    def ask(name):
        def work():
            begun.append(name)
            assert others.wait(20)
            return name

        with turns.take():
            assert heavy.run(name, work, wanted) == name

    threads = [threading.Thread(target=ask, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    while not begun:
        time.sleep(0.01)
    with turns.take():
        # The second waits for its place, and not with a turn.
        assert len(begun) == 1
    others.set()
    for thread in threads:
        thread.join()
    assert sorted(begun) == ["a", "b"]


def test_a_session_that_leaves_drops_its_work_and_makes_room(turns):
    heavy, began, dropped, leaves = HeavyWork(seconds=1e18), threading.Event(), [], threading.Event()

    def endless():
        began.set()
        progress = Progress(10**9)
        while True:
            try:
                progress.step()
            except Ended as end:
                dropped.append(end.problem.key)
                raise
            time.sleep(0.001)

    asked = threading.Thread(
        target=lambda: dropped.append(
            refusal(lambda: heavy.run("endless", endless, lambda: not leaves.is_set())).key
        )
    )
    asked.start()
    assert began.wait(20)
    # One that waits for its place leaves, too.
    assert refusal(lambda: heavy.run("other", lambda: 1, lambda: False)).key == "work.dropped"
    leaves.set()
    assert heavy.run("next", lambda: "done", wanted) == "done"
    asked.join()
    assert dropped == ["work.dropped", "work.dropped"]


def test_what_took_too_long_is_not_tried_again_for_a_while(turns):
    heavy, tries = HeavyWork(seconds=0.0), []

    def work():
        tries.append(1)
        time.sleep(0.01)
        Progress(1).step()

    for _ in range(3):
        assert refusal(lambda: heavy.run("it", work, wanted)).key == "work.too_long"
    assert len(tries) == 1
    with pytest.raises(ZeroDivisionError):
        HeavyWork().run("bug", lambda: 1 / 0, wanted)


def test_parts_of_heavy_work_are_done_where_it_is(monkeypatch, turns):
    heavy = HeavyWork()
    monkeypatch.setattr(heavy_work, "_heavy", lambda: heavy)
    kept = Shared(10**6)
    made = kept.get("a", lambda: kept.get("b", lambda: [threading.get_ident()], heavy=True), heavy=True)
    assert kept.get("b", list, heavy=True) is made
    assert made != [threading.get_ident()]


def test_a_search_in_the_lab_is_long_work_and_what_is_no_search_is_not(monkeypatch, turns):
    from quantviz.ui.lab import tensor

    asked = []
    heavy = HeavyWork()
    monkeypatch.setattr(heavy_work, "_heavy", lambda: heavy)
    monkeypatch.setattr(heavy, "run", lambda name, work, is_wanted: asked.append(name) or work())
    source = parse_source("normal(rows=64,cols=65,seed=99)")
    searched = qv.Scheme.parse("int4,symmetric,per_tensor,mse,course")
    state = opening().with_source(source).replace(scheme=searched)
    tensor.study_of(state)
    tensor.gaussian_db(state.scheme, source.shape)
    assert [name.partition(" ")[0] for name in asked][-1] == "gaussian"
    assert any("study" in name for name in asked)
    count = len(asked)
    tensor.study_of(state.replace(scheme=qv.Scheme("int4")))
    tensor.study_of(state.with_source(parse_source("normal(rows=8,cols=8,seed=99)")))
    assert len(asked) == count
