"""Jobs: their answers, their turns, their bounds, and what happens where they do not look."""

import gc
import io
import itertools
import os
import pickle
import subprocess
import sys
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
import torch

import quantviz as qv
from quantviz import jobs as jobs_module
from quantviz.analysis.better_schemes import best_of
from quantviz.analysis.blame import culprits
from quantviz.analysis.block_costs import block_costs
from quantviz.analysis.range_error import range_curve
from quantviz.analysis.scheme_comparison import compare_schemes
from quantviz.analysis.study import Study, ask_study, search
from quantviz.budget import Ended, StepCounter
from quantviz.evaluation.gaussian import gaussian_sqnr_db
from quantviz.jobs import Cost, Jobs
from quantviz.schemes.granularity import PerChannel
from quantviz.sources import parse_source
from quantviz.sources.base import of_tensor
from quantviz.streaming import kernel_access
from quantviz.teaching.golf import recipes_within
from quantviz.tensors.lazy import InMemory, OwnScales

SLOW = qv.Scheme.parse("int8,symmetric,per_group(size=2),mse,course")
WEIGHT = parse_source("normal(rows=64,cols=64,seed=3)")


@pytest.fixture(scope="module")
def jobs():
    made = Jobs()
    yield made
    made.close()


PAGE = Cost(seconds=60.0, threads=1)
_key = itertools.count()


def ask(jobs, work, cost=PAGE, **more):
    return jobs.submit(work, next(_key), cost).result(**more)


def priority():
    print("no answer")
    return os.getpid(), os.nice(0), os.environ["QUANTVIZ_THREADS"]


def endless():
    progress = StepCounter(10**9, is_whole=True)
    while True:
        progress.step()


def slow(enough):
    """Work that goes on until there is a file."""
    progress = StepCounter(10**5, is_whole=True)
    while not enough.exists():
        progress.step()
        time.sleep(0.01)
    return "done"


class Left(BaseException):
    """The end of a caller's run while it is told how far the work is."""


def stuck(operand=None):
    time.sleep(1000)


def died(operand):
    os._exit(3)


def spinning():
    while True:
        pass


def large(side):
    return float(torch.ones(side, side, dtype=torch.float64).sum())


def growing():
    os.growth = bytearray(2 * 2**27)
    os.growth[:: 2**12] = b"x" * len(os.growth[:: 2**12])


def doubled(*arrays):
    return [2 * each for each in arrays]


def mapped():
    """The memory that this process shares with another and that has no name: its maps and descriptors."""
    held = [str(each.readlink()) for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
    return [
        each for each in (*held, *Path("/proc/self/maps").read_text().split()) if "memfd:quantviz" in each
    ]


def ended(ask):
    with pytest.raises(Ended) as end:
        ask()
    assert end.value.problem.message("zh")
    return end.value.problem.key


def is_there(pid):
    """Whether a process is there, dead ones that nobody has taken note of included."""
    return Path(f"/proc/{pid}").exists()


def runs(pid):
    """Whether a process is there and has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def asked(times):
    """Whether somebody still waits, at the first looks."""
    left = iter([True] * times)
    return lambda: next(left, False)


def test_answers_are_those_of_this_process_and_it_stands_behind(jobs):
    pid, nice, threads = ask(jobs, priority)
    assert ([pid], threads) == (jobs.processes, "1")
    assert pid != os.getpid()
    assert nice > os.nice(0)
    found = ask(jobs, partial(of_tensor, WEIGHT, partial(search, scheme=SLOW)))
    again = ask(jobs, partial(of_tensor, WEIGHT.open(), partial(search, scheme=SLOW)))
    own = Study.of(WEIGHT.open(), SLOW)
    with_it = Study.of(WEIGHT.open(), SLOW, found=found)
    assert torch.equal(found.lo, own.range.lo)
    assert torch.equal(again.hi, own.range.hi)
    assert torch.equal(with_it.result.x_hat, own.result.x_hat)
    assert with_it.notes == own.notes
    with pytest.raises(ZeroDivisionError) as bug:
        ask(jobs, partial(divmod, 1, 0))
    assert "jobs.py" in bug.value.__notes__[0]
    with pytest.raises(qv.QuantVizError, match="int99"):
        ask(jobs, partial(qv.Scheme.parse, "int99"))
    # What cannot be sent harms nobody.
    with pytest.raises((AttributeError, pickle.PicklingError)):
        ask(jobs, partial(len, ["x" * 10**5, lambda: 1]))
    assert ask(jobs, os.getpid) == pid


def test_work_ends_at_its_budget_and_where_nobody_waits(jobs, monkeypatch):
    monkeypatch.setattr(jobs_module, "_GRACE", 600.0)
    pid = ask(jobs, os.getpid)
    assert ended(lambda: ask(jobs, endless, Cost(seconds=0.05))) == "work.too_long"
    assert ended(lambda: ask(jobs, endless, is_wanted=asked(1))) == "work.dropped"
    assert ask(jobs, os.getpid) == pid


def test_how_much_is_done_is_told_meanwhile_and_work_is_dropped_where_the_caller_leaves_at_that(
    jobs, monkeypatch, tmp_path
):
    monkeypatch.setattr(jobs_module, "_GRACE", 600.0)
    pid = ask(jobs, os.getpid)
    shares = []

    def hear(share):
        shares.append(share)
        if len(shares) > 1:
            (tmp_path / "enough").touch()

    assert ask(jobs, partial(slow, tmp_path / "enough"), on_share=hear) == "done"
    assert shares == sorted(set(shares))
    assert 0 < shares[0] < shares[-1] < 1

    def leave(share):
        raise Left

    with pytest.raises(Left):
        ask(jobs, endless, on_share=leave)
    assert ask(jobs, os.getpid) == pid


def test_a_process_that_does_not_look_is_killed_and_leaves_nothing(jobs, monkeypatch):
    monkeypatch.setattr(jobs_module, "_GRACE", 0.1)
    pid = ask(jobs, os.getpid)
    dropped = jobs.submit(stuck, "stuck", PAGE)
    assert ended(lambda: dropped.result(asked(1))) == "work.dropped"
    assert dropped.wait(60)
    assert not is_there(pid)
    monkeypatch.undo()
    assert ended(lambda: ask(jobs, spinning, Cost(seconds=0.0))) == "work.too_long"
    assert ended(lambda: ask(jobs, partial(os._exit, 3))) == "work.lost"
    pid = ask(jobs, os.getpid)
    # One that has ended while it waited is not taken for the work's end.
    os.kill(pid, 9)
    assert ask(jobs, partial(len, "abc")) == 3
    assert not is_there(pid)


def test_work_has_no_more_memory_than_it_may_and_gives_it_back(jobs):
    """A matrix of 512 MB; and what stays behind in a process ends with that."""
    assert ask(jobs, partial(large, 2**10), Cost(bytes=2**28)) == 2.0**20
    before = ask(jobs, os.getpid)
    assert ended(lambda: ask(jobs, partial(large, 2**13), Cost(bytes=2**28))) == "work.memory"
    assert ask(jobs, os.getpid) == before
    ask(jobs, growing)
    assert ask(jobs, os.getpid) != before
    assert not is_there(before)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems send them in a stream")
def test_large_arrays_lie_in_memory_of_both_that_is_free_once_nobody_has_them(jobs, monkeypatch):
    monkeypatch.setattr(jobs_module, "_GRACE", 0.1)
    x = torch.arange(2**20, dtype=torch.float32)
    every = (
        x,
        x[::2],
        x.bfloat16(),
        x.view(2**10, -1).T,
        torch.ones(()).expand(2**20),
        x.numpy(),
        torch.ones(2),
    )
    assert not mapped()
    found = ask(jobs, partial(doubled, *every))
    assert len(jobs_module._Message(every)._content) < 2**12
    assert all(
        (torch.as_tensor(a) == 2 * torch.as_tensor(b)).all() for a, b in zip(found, every, strict=True)
    )
    assert [each.dtype for each in found] == [each.dtype for each in every]
    assert mapped()
    found[0][0] = 7.0
    del found
    assert not mapped()
    # Where the process ends in the middle of it, and where nobody waits.
    assert ended(lambda: ask(jobs, partial(died, x))) == "work.lost"
    dropped = jobs.submit(partial(stuck, x), "stuck with an array", PAGE)
    assert ended(lambda: dropped.result(asked(1))) == "work.dropped"
    assert dropped.wait(60)
    assert not mapped()


def test_the_same_is_computed_once_and_ends_with_the_last_who_waits(jobs, tmp_path):
    same = partial(jobs.submit, partial(slow, tmp_path / "enough"), "same", PAGE)
    first = same(owner="a")
    assert same(owner="b") is first
    with ThreadPoolExecutor(2) as threads:
        leaves = threads.submit(first.result, asked(1))
        stays = threads.submit(first.result)
        assert ended(leaves.result) == "work.dropped"
        (tmp_path / "enough").touch()
        assert stays.result() == "done"
    assert first.found == "done"
    assert same() is not first


def test_owners_take_turns_and_short_work_passes_by():
    jobs, order = Jobs(), []
    held = threading.Event()
    jobs._answer = lambda job: (held.wait(60), order.append(job.key), ("found", job.key))[2]
    long, short = Cost(), Cost(products=0.0)
    keys = [("a", 0), ("a", 1), ("a", 2), ("b", 0)]
    every = [jobs.submit(len, key, long, owner=key[0]) for key in keys]
    assert [jobs.before(job) for job in every] == [0, 1, 2, 3]
    every[2].cancel()
    assert ended(every[2].result) == "work.dropped"
    assert every[2].found is None
    quick = jobs.submit(len, "quick", short, owner="a")
    scan = jobs.submit(len, "scan", Cost(queue="scans"), stays=True)
    held.set()
    assert [job.result() for job in (every[0], every[1], every[3], quick, scan)]
    assert [key for key in order if len(key) == 2] == [("a", 0), ("b", 0), ("a", 1)]


@pytest.mark.parametrize(("key", "tried"), [("work.too_long", 1), ("work.lost", 1), ("work.dropped", 3)])
def test_what_took_too_long_is_not_tried_again_for_a_while(key, tried):
    jobs, tries = Jobs(), []
    jobs._answer = lambda job: (tries.append(job), ("raised", Ended(key, seconds="20")))[1]
    for _ in range(3):
        assert ended(lambda: jobs.submit(len, "it", PAGE).result()) == key
    assert len(tries) == tried


def test_a_refusal_that_is_kept_holds_nothing_of_its_callers():
    jobs = Jobs()
    jobs._answer = lambda job: ("raised", Ended("work.too_long", seconds="20"))

    def call():
        operand = torch.ones(1)
        assert ended(lambda: jobs.submit(partial(len, operand), "it", PAGE).result()) == "work.too_long"
        return weakref.ref(operand)

    operands = [call() for _ in range(3)]
    gc.collect()
    assert not any(operand() is not None for operand in operands)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems send arrays in a stream")
def test_a_process_to_which_work_could_not_be_sent_is_not_left_behind(jobs, monkeypatch):
    pid = ask(jobs, os.getpid)

    def refuse(name):
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "memfd_create", refuse)
    with pytest.raises(OSError, match="Too many open files"):
        ask(jobs, partial(doubled, torch.ones(2**20)))
    monkeypatch.undo()
    assert pid not in jobs.processes
    assert not is_there(pid)
    assert ask(jobs, partial(len, "abc")) == 3


def test_settings_of_the_environment_count_from_now_on(jobs, monkeypatch):
    assert ask(jobs, partial(os.getenv, "QUANTVIZ_OF_TEST")) is None
    monkeypatch.setenv("QUANTVIZ_OF_TEST", "1")
    assert ask(jobs, partial(os.getenv, "QUANTVIZ_OF_TEST")) == "1"


def test_processes_that_wait_end_where_nobody_is_there(jobs):
    pid = ask(jobs, os.getpid)
    assert jobs.processes == [pid]
    jobs.rest()
    assert jobs.processes == []
    assert ask(jobs, os.getpid) != pid


def test_it_ends_with_the_server():
    """Even where that is killed in the middle of its work."""
    code = (
        "import os, threading, time\nfrom functools import partial\n"
        "from quantviz.jobs import Jobs\n"
        "jobs = Jobs()\nprint(jobs.submit(os.getpid, 1).result(), flush=True)\n"
        "jobs.submit(partial(time.sleep, 1000), 2, stays=True)\n"
        "time.sleep(1000)"
    )
    server = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    pid = int(server.stdout.readline())
    server.kill()
    server.wait()
    server.stdout.close()
    until = time.monotonic() + 60
    while runs(pid):
        assert time.monotonic() < until
        time.sleep(0.05)


def test_it_works_without_numba(tmp_path, monkeypatch):
    (tmp_path / "numba.py").write_text("raise ModuleNotFoundError(name='numba')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    jobs = Jobs()
    try:
        assert not ask(jobs, kernel_access.has_kernels)
        found = ask(jobs, partial(of_tensor, WEIGHT, partial(search, scheme=SLOW)))
    finally:
        jobs.close()
    assert torch.equal(found.lo, Study.of(WEIGHT.open(), SLOW).range.lo)


def test_a_stored_tensor_is_sent_with_what_its_file_says_of_it():
    own = qv.Scheme("int4", granularity=PerChannel(0))
    scales = OwnScales(torch.tensor([0.5, 0.25]), torch.tensor(0))
    x = InMemory(torch.tensor([[1.0, -2.0], [0.5, 1.5]]), dtype="bfloat16", own=(own, scales))
    sent = pickle.loads(pickle.dumps(x))
    assert torch.equal(sent.read((slice(None), slice(None))), x.read((slice(None), slice(None))))
    assert (sent.dtype, sent.notes, sent.shape) == (x.dtype, x.notes, x.shape)
    assert torch.equal(sent.own_scales(own).scale, scales.scale)
    assert sent.own_scales(qv.Scheme("int8")) is None


@pytest.mark.parametrize(
    "ask",
    [
        partial(best_of, schemes=(qv.Scheme("int4", granularity=PerChannel(0)),)),
        partial(culprits, scheme="int4_per_tensor", trials=4),
        partial(ask_study, ask=block_costs, scheme=qv.Scheme("int4", granularity=PerChannel(0))),
        partial(ask_study, ask=partial(range_curve, steps=4), scheme=qv.Scheme("int4"), block=(0, 0)),
        partial(compare_schemes, schemes=(qv.Scheme("int4"), qv.Scheme("int8")), parts=PerChannel(0)),
        partial(qv.compare_calibrations, scheme=qv.Scheme("int4")),
        recipes_within,
    ],
)
def test_what_is_asked_and_answered_can_be_sent(ask):
    x = parse_source("normal(rows=2,cols=4,seed=1)").open()
    found = pickle.loads(pickle.dumps(ask))(x)
    sent = pickle.loads(pickle.dumps(found))
    assert repr(sent) == repr(found)


def test_normal_values_can_be_asked_about():
    ask = partial(gaussian_sqnr_db, qv.Scheme("int4"), (8, 8))
    assert pickle.loads(pickle.dumps(ask))() == ask()


def test_an_answer_that_names_a_strangers_module_does_not_import_it(tmp_path, monkeypatch):
    (tmp_path / "strangers_module.py").write_text("value = ()")
    monkeypatch.syspath_prepend(tmp_path)
    answer = io.BytesIO(b"cstrangers_module\nvalue\n.")
    with pytest.raises(pickle.UnpicklingError, match="is no data"):
        jobs_module._TypedData(answer).load()
    assert "strangers_module" not in sys.modules
