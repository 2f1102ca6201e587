"""What sessions share: made once, held once, within a bound; and runs that take turns."""

import gc
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from quantviz.errors import QuantVizError
from quantviz.tensors.lazy import InMemory
from quantviz.ui.shell import shared_cache
from quantviz.ui.shell.shared_cache import Shared, held_bytes, shared_tensor
from quantviz.ui.shell.startup import RunQueue


def tensor(kilobytes):
    return InMemory(torch.zeros(256 * kilobytes))


def test_forty_who_ask_at_once_cost_one_load():
    kept, loads, begun = Shared(2**20), [], threading.Barrier(40)

    def make():
        loads.append(1)
        return tensor(1)

    def ask(_):
        begun.wait(60)
        return kept.get("x", make)

    with ThreadPoolExecutor(40) as threads:
        found = list(threads.map(ask, range(40)))
    assert len(loads) == 1
    assert len(set(map(id, found))) == 1


def test_of_equal_ones_that_asked_for_least_lately_goes_first():
    kept = Shared(250 * 1024, clock=lambda: 0.0)
    for name in ("a", "b", "a", "c"):
        kept.get(name, lambda: tensor(100))
    gc.collect()
    remade = []
    for name in ("a", "c", "b"):
        kept.get(name, lambda name=name: remade.append(name) or tensor(100))
    assert remade == ["b"]
    assert kept.held <= kept.most_bytes


def test_what_takes_long_to_make_for_its_bytes_stays():
    now = [0.0]
    kept, remade = Shared(1000 * 1024, clock=lambda: now[0]), []

    def ask(name, kilobytes, seconds):
        def make():
            now[0] += seconds
            remade.append(name)
            return bytes(1024 * kilobytes)  # nobody else can hold it

        kept.get(name, make)

    ask("small and slow", 10, 1.0)
    ask("large and quick", 600, 0.1)
    for name in ("second", "third"):
        ask(name, 300, 1.0)
    ask("small and slow", 10, 1.0)
    assert remade == ["small and slow", "large and quick", "second", "third"]
    ask("large and quick", 600, 0.1)
    assert remade[4:] == ["large and quick"]
    # It ages all the same: what is asked for again and again drives out what never is.
    for n in range(150):
        ask(f"other {n}", 300, 1.0)
    ask("small and slow", 10, 1.0)
    assert remade[-1] == "small and slow"
    assert kept.held <= kept.most_bytes


def test_what_somebody_still_looks_at_is_never_there_twice():
    kept = Shared(150 * 1024)
    first = kept.get("a", lambda: tensor(100))
    kept.get("b", lambda: tensor(100))
    assert kept.get("a", lambda: tensor(100)) is first
    held = kept.held
    larger = kept.get("larger than all the room", lambda: tensor(1000))
    # It drives out nothing.
    assert kept.held == held > 0
    assert kept.get("larger than all the room", lambda: tensor(1000)) is larger


def test_after_a_failure_the_next_one_tries():
    kept = Shared(2**20)
    with pytest.raises(QuantVizError):
        kept.get("x", lambda: (_ for _ in ()).throw(QuantVizError("callback_failed")))
    assert kept.get("x", lambda: "made") == "made"


def test_what_is_large_and_nobody_asks_for_goes():
    now = [0.0]
    kept, made = Shared(2**30, clock=lambda: now[0]), []
    for name, size in (("large", 2**25), ("small", 2**10), ("asked for", 2**25)):
        kept.get(name, lambda name=name, size=size: made.append(name) or bytes(size))
    now[0] = 30.0
    kept.get("asked for", lambda: made.append("again"))
    now[0] = 50.0
    assert kept.forget_unused()
    assert not kept.forget_unused()
    for name in ("large", "small", "asked for"):
        kept.get(name, lambda name=name: made.append(f"{name} again"))
    assert made[3:] == ["large again"]


def test_without_a_session_tensors_and_smaller_facts_are_let_go_too(monkeypatch):
    now = [0.0]
    settings = shared_cache.TENSOR_BYTES, shared_cache.FACT_BYTES
    kept = {name: Shared(2**30, lambda: now[0]) for name in settings}
    monkeypatch.setattr(shared_cache, "_cache", kept.get)
    for each in kept.values():
        each.get("large", lambda: bytes(2**21))
        each.get("small", lambda: bytes(2**10))
    before = kept[shared_cache.TENSOR_BYTES].held
    now[0] += 100
    assert not shared_cache.forget_unused(is_alone=False)
    assert [each.held for each in kept.values()] == [before, before]
    assert shared_cache.forget_unused(is_alone=True)
    assert all(0 < each.held < 2**12 for each in kept.values())


def test_bytes_are_counted_wherever_they_are():
    values = np.zeros(1000, np.float32)
    assert held_bytes(InMemory(torch.zeros(1000))) - held_bytes("") == 4000
    assert held_bytes({"a": [values, (torch.zeros(1000),)]}) >= 8000


@pytest.mark.parametrize("written", ["0", "-5", "1e9", "many", ""])
def test_a_setting_that_is_no_number_of_bytes_is_named(monkeypatch, written):
    monkeypatch.setenv(shared_cache.TENSOR_BYTES, written)
    shared_cache._cache.cache_clear()
    with pytest.raises(QuantVizError, match="QUANTVIZ_SHARED_BYTES"):
        shared_tensor("x", lambda: tensor(1))
    monkeypatch.delenv(shared_cache.TENSOR_BYTES)
    shared_cache._cache.cache_clear()
    assert shared_tensor("x", lambda: tensor(1)).count == 256


def test_turns_come_in_the_order_in_which_they_were_asked_for():
    turns, order = RunQueue(concurrent=1, patience=30), []
    asked = [threading.Event() for _ in range(5)]

    def work(n):
        asked[n].set()
        with turns.take():
            order.append(n)

    threads = []
    with turns.take():
        for n in range(5):
            threads.append(threading.Thread(target=work, args=(n,)))
            threads[-1].start()
            asked[n].wait(60)
            while len(turns._waiting) <= n:
                pass
    for thread in threads:
        thread.join(60)
    assert order == list(range(5))


def test_a_turn_that_is_left_goes_to_another():
    turns, had = RunQueue(concurrent=1, patience=30), threading.Event()

    def work():
        with turns.take():
            had.set()

    with turns.take():
        thread = threading.Thread(target=work)
        thread.start()
        assert not had.is_set()
        with turns.leave():
            assert had.wait(60)
    thread.join(60)
    with turns.leave():  # of one who has none nothing is taken
        pass
    assert turns._working == 0


def test_who_comes_back_is_before_those_who_came_later():
    turns, order, waiting = RunQueue(concurrent=1, patience=30), [], threading.Event()
    left, back = threading.Event(), threading.Event()

    def first():
        with turns.take():
            with turns.leave():
                left.set()
                assert back.wait(60)
            order.append("first")

    def later(n):
        assert left.wait(60)
        with turns.take():
            if n == 0:
                waiting.set()
                while len(turns._waiting) < 3:
                    pass
            order.append(n)

    threads = [threading.Thread(target=first)]
    threads[0].start()
    assert left.wait(60)
    threads.append(threading.Thread(target=later, args=(0,)))
    threads[1].start()
    assert waiting.wait(60)
    for n in (1, 2):
        threads.append(threading.Thread(target=later, args=(n,)))
        threads[-1].start()
        while len(turns._waiting) < n:
            pass
    back.set()
    for thread in threads:
        thread.join(60)
    assert order == [0, "first", 1, 2]
    assert turns._working == 0


def test_nobody_waits_for_ever_for_one_that_hangs():
    turns = RunQueue(concurrent=1, patience=0.01)
    with turns.take(), ThreadPoolExecutor(1) as other:

        def work():
            with turns.take():
                return turns._working

        assert other.submit(work).result(60) == 2
    assert turns._working == 0


def test_many_that_wait_long_still_take_turns():
    """Each waits longer than anyone's patience, and yet no two work at once."""
    turns, most = RunQueue(concurrent=1, patience=1.0), []

    def work():
        with turns.take():
            most.append(turns._working)
            time.sleep(0.03)

    with ThreadPoolExecutor(50) as crowd:
        for done in [crowd.submit(work) for _ in range(50)]:
            done.result(60)
    assert most == [1] * 50
