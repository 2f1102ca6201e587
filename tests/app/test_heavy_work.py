"""Long work of a page: off the shared path, one at a time, within a budget, and while it is waited for."""

import threading
import time

import pytest
import torch

import quantviz as qv
from quantviz.analysis.better_schemes import best_of
from quantviz.budget import Ended, Progress, Spending, spending
from quantviz.lab.state import opening
from quantviz.sources import parse_source
from quantviz.streaming.threads import shared_out
from quantviz.ui.lab.blame import blame_tab
from quantviz.ui.lab.range import range_tab
from quantviz.ui.shell import heavy_work, startup
from quantviz.ui.shell.heavy_work import HeavyWork
from tests.helpers.session import healthy, opened, turned

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


def test_of_several_parts_those_that_take_too_long_are_named_and_the_others_shown():
    x, scheme = torch.randn(16, 16), qv.Scheme.parse("int4,symmetric,per_group(size=2),min_max,course")
    tried = [qv.MSE(), qv.Percentile(99.0)]
    searched = qv.Scheme.parse("int4,symmetric,per_group(size=2),mse,course")
    with spending(Spending(2.5, clock=Clock())):
        found = qv.compare_calibrations(x, scheme, tried)
        row = best_of(x, [searched, scheme])
    assert [row.problem and row.problem.key for row in found.rows] == [None, "work.too_long", None]
    assert found.best in (found.rows[0], found.rows[2])
    assert row.scheme == scheme
    dropped = Spending(1e9)
    dropped.drop()
    with spending(dropped):
        assert refusal(lambda: qv.compare_calibrations(x, scheme, tried)).key == "work.dropped"


@pytest.mark.parametrize(
    ("tab", "work"), [("blame", (blame_tab, "_found")), ("range", (range_tab, "_compared"))]
)
def test_a_tab_without_what_takes_too_long_says_so_and_the_page_is_there(monkeypatch, tab, work):
    def too_long(*_):
        raise qv.QuantVizError("work.too_long", seconds="44")

    monkeypatch.setattr(*work, too_long)
    at = turned(opened(lang="en"), tab)
    assert ["more than 44 s" in each.value for each in at.warning] == [True]
    assert healthy(at).get("plotly_chart")


def test_others_have_the_turn_meanwhile_and_one_piece_is_done_at_a_time(turns):
    """A process of its own does it, which is tried in `tests/test_work_process.py`."""
    heavy, begun, others = HeavyWork(), [], threading.Event()

    def answered(work, seconds, is_wanted, on_share):
        begun.append(work)
        assert not turns.held
        assert others.wait(20)
        return "found", work

    heavy.process._answer = answered

    def ask(name):
        with turns.take():
            assert heavy.run(name, name, wanted) == name
            assert turns.held

    threads = [threading.Thread(target=ask, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    while not begun:
        time.sleep(0.01)
    # One that waits for its place leaves it with its session.
    assert refusal(lambda: heavy.run("other", len, lambda: False)).key == "work.dropped"
    with turns.take():
        # The second waits for its place, and not with a turn.
        assert len(begun) == 1
    others.set()
    for thread in threads:
        thread.join()
    assert sorted(begun) == ["a", "b"]


@pytest.mark.parametrize(("key", "tried"), [("work.too_long", 1), ("work.lost", 1), ("work.dropped", 3)])
def test_what_took_too_long_is_not_tried_again_for_a_while(turns, key, tried):
    heavy, tries = HeavyWork(), []

    def ended(work, seconds, is_wanted, on_share):
        tries.append(work)
        raise Ended(key, seconds="20")

    heavy.process._answer = ended
    for _ in range(3):
        assert refusal(lambda: heavy.run("it", len, wanted)).key == key
    assert len(tries) == tried


def test_a_search_in_the_lab_is_long_work_and_what_is_no_search_is_not(monkeypatch, turns):
    from quantviz.ui.lab import tensor

    asked = []
    heavy = HeavyWork()
    monkeypatch.setattr(heavy_work, "_heavy", lambda: heavy)
    monkeypatch.setattr(heavy, "run", lambda name, work, is_wanted, on_share: asked.append(name) or work())
    source = parse_source("normal(rows=64,cols=65,seed=99)")
    searched = qv.Scheme.parse("int4,symmetric,per_tensor,mse,course")
    state = opening().with_source(source).replace(scheme=searched)
    found = tensor.study_of(state)
    tensor.gaussian_db(state.scheme, source.shape)
    assert [name.partition(" ")[0] for name in asked][-1] == "gaussian"
    assert any("search" in name for name in asked)
    assert torch.equal(found.result.x_hat, qv.quantize(source.tensor(), searched).x_hat)
    count = len(asked)
    tensor.study_of(state.replace(scheme=qv.Scheme("int4")))
    tensor.study_of(state.with_source(parse_source("normal(rows=8,cols=8,seed=99)")))
    assert len(asked) == count


def test_a_search_that_takes_too_long_stays_chosen_and_the_page_shows_it_without(monkeypatch, turns):
    from quantviz.ui.lab import tensor

    def too_long(name, work):
        raise qv.QuantVizError("work.too_long", seconds="44")

    monkeypatch.setattr(tensor, "heavily", too_long)
    searched = "int4,symmetric,per_group(size=2),mse,course"
    at = healthy(opened(lang="en", t="normal(rows=64,cols=66,seed=98)", s=searched))
    assert any("more than 44 s" in each.value for each in at.warning)
    now = at.session_state["lab_state"].now
    assert str(now.scheme) == searched.replace("mse", "min_max")
    assert str(now.chosen) == searched
    assert any("takes too long here" in each.value for each in at.caption)
    assert at.get("plotly_chart")
    # The choice is not lost: the next tensor, which is small, has it.
    assert str(now.with_source(parse_source("normal(rows=4,cols=4,seed=1)")).scheme) == searched


def test_a_pass_over_many_elements_lets_others_have_the_turn(monkeypatch, turns):
    from quantviz.ui.lab import tensor
    from quantviz.ui.shell import shared_cache

    monkeypatch.setattr(shared_cache, "turns", lambda: turns)
    held = {}
    for side in (8, 512):
        source = parse_source(f"normal(rows={side},cols={side},seed=97)")
        with turns.take():
            tensor.kept(source, "whether the turn is held", lambda: held.update({side: turns.held}))  # noqa: B023
            assert turns.held
    assert held == {8: True, 512: False}
