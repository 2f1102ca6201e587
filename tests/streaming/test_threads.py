"""The sharing of work among threads."""

import threading
import time
from contextlib import closing

import pytest

from quantviz.streaming.threads import results_of, shared_out


def test_the_others_end_when_one_fails():
    begun = []

    def work(items):
        for item in items:
            begun.append(item)
            if item == 0:
                raise KeyError(item)
            time.sleep(0.001)

    with pytest.raises(KeyError):
        shared_out(work, range(10_000), threads=3)
    assert len(begun) < 1_000


def test_results_are_worked_on_together_and_come_in_order():
    both = threading.Barrier(2, timeout=120)

    def doubled(number):
        both.wait()  # one alone would never pass
        return 2 * number

    assert list(results_of(doubled, [3, 1, 2, 0], workers=2)) == [6, 2, 4, 0]


def test_few_items_are_begun_that_no_result_is_asked_of():
    begun = []
    go_on = threading.Event()

    def noted(number):
        begun.append(number)
        if number:
            go_on.wait(60)

    with closing(results_of(noted, range(100), workers=2)) as results:
        next(results)
        go_on.set()
    assert len(begun) <= 3
