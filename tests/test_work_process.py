"""Long work in a process of its own: its answers, its end, and what happens where it does not look."""

import os
import pickle
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
import torch

import quantviz as qv
from quantviz import work_process
from quantviz.analysis.better_schemes import best_of
from quantviz.analysis.blame import culprits
from quantviz.analysis.block_costs import block_costs
from quantviz.analysis.range_error import range_curve
from quantviz.analysis.scheme_comparison import compare_schemes
from quantviz.analysis.study import Study, ask_study, search
from quantviz.budget import Ended, Progress
from quantviz.evaluation.gaussian import gaussian_sqnr_db
from quantviz.schemes.granularity import PerChannel
from quantviz.sources import parse_source
from quantviz.sources.base import of_tensor
from quantviz.streaming import kernel_access
from quantviz.teaching.golf import recipes_within
from quantviz.tensors.lazy import InMemory, OwnScales
from quantviz.work_process import WorkProcess

SLOW = qv.Scheme.parse("int8,symmetric,per_group(size=2),mse,course")
WEIGHT = parse_source("normal(rows=64,cols=64,seed=3)")


@pytest.fixture(scope="module")
def work():
    process = WorkProcess()
    yield process
    process.close()


def priority():
    print("no answer")
    return os.getpid(), os.nice(0), os.environ["QUANTVIZ_THREADS"]


def endless():
    progress = Progress(10**9, is_whole=True)
    while True:
        progress.step()


def slow():
    progress = Progress(40, is_whole=True)
    for _ in range(40):
        progress.step()
        time.sleep(0.01)
    return "done"


class Left(BaseException):
    """The end of a caller's run while it is told how far the work is."""


def stuck():
    time.sleep(1000)


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


def test_answers_are_those_of_this_process_and_it_stands_behind(work):
    pid, nice, threads = work.ask(priority, 60.0)
    assert (pid, threads) == (work.pid, "1")
    assert pid != os.getpid()
    assert nice > os.nice(0)
    found = work.ask(partial(of_tensor, WEIGHT, partial(search, scheme=SLOW)), 1000.0)
    again = work.ask(partial(of_tensor, WEIGHT.open(), partial(search, scheme=SLOW)), 1000.0)
    own = Study.of(WEIGHT.open(), SLOW)
    with_it = Study.of(WEIGHT.open(), SLOW, found=found)
    assert torch.equal(found.lo, own.range.lo)
    assert torch.equal(again.hi, own.range.hi)
    assert torch.equal(with_it.result.x_hat, own.result.x_hat)
    assert with_it.notes == own.notes
    with pytest.raises(ZeroDivisionError) as bug:
        work.ask(partial(divmod, 1, 0), 60.0)
    assert "work_process.py" in bug.value.__notes__[0]
    with pytest.raises(qv.QuantVizError, match="int99"):
        work.ask(partial(qv.Scheme.parse, "int99"), 60.0)


def test_work_ends_at_its_budget_and_where_nobody_waits(work, monkeypatch):
    monkeypatch.setattr(work_process, "_GRACE", 600.0)
    pid = work.ask(os.getpid, 60.0)
    assert ended(lambda: work.ask(endless, 0.05)) == "work.too_long"
    assert ended(lambda: work.ask(endless, 1e9, asked(1))) == "work.dropped"
    assert work.ask(os.getpid, 60.0) == pid


def test_how_much_is_done_is_told_meanwhile_and_work_is_dropped_where_the_caller_leaves_at_that(
    work, monkeypatch
):
    monkeypatch.setattr(work_process, "_GRACE", 600.0)
    pid = work.ask(os.getpid, 60.0)
    shares = []
    assert work.ask(slow, 60.0, on_share=shares.append) == "done"
    assert len(shares) > 1
    assert shares == sorted(set(shares))
    assert 0 <= shares[0] < shares[-1] < 1

    def leave(share):
        raise Left

    with pytest.raises(Left):
        work.ask(endless, 1e9, on_share=leave)
    assert work.ask(os.getpid, 60.0) == pid


def test_a_process_that_does_not_look_is_killed_and_leaves_nothing(work, monkeypatch):
    monkeypatch.setattr(work_process, "_GRACE", 0.1)
    monkeypatch.setattr(work_process, "_LATE", 0.5)
    pid = work.ask(os.getpid, 60.0)
    assert ended(lambda: work.ask(stuck, 1e9, asked(1))) == "work.dropped"
    assert not is_there(pid)
    assert work.pid is None
    assert ended(lambda: work.ask(stuck, 0.0)) == "work.too_long"
    assert work.pid is None
    monkeypatch.undo()
    assert ended(lambda: work.ask(partial(os._exit, 3), 60.0)) == "work.lost"
    pid = work.ask(os.getpid, 60.0)
    assert pid == work.pid
    # Half a message: the next is not taken for its end.
    with pytest.raises((AttributeError, pickle.PicklingError)):
        work.ask(partial(len, ["x" * 10**5, lambda: 1]), 60.0)
    assert work.ask(partial(len, "abc"), 60.0) == 3
    assert not is_there(pid)


def test_settings_of_the_environment_count_from_now_on(work, monkeypatch):
    assert work.ask(partial(os.getenv, "QUANTVIZ_OF_TEST"), 60.0) is None
    monkeypatch.setenv("QUANTVIZ_OF_TEST", "1")
    assert work.ask(partial(os.getenv, "QUANTVIZ_OF_TEST"), 60.0) == "1"


def test_it_ends_with_the_server():
    """Even where that is killed in the middle of its work."""
    code = (
        "import os, threading, time\nfrom functools import partial\n"
        "from quantviz.work_process import WorkProcess\n"
        "work = WorkProcess()\nprint(work.ask(os.getpid, 60.0), flush=True)\n"
        "threading.Thread(target=work.ask, args=(partial(time.sleep, 1000), 60.0), daemon=True).start()\n"
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
    process = WorkProcess()
    try:
        assert not process.ask(kernel_access.has_kernels, 60.0)
        found = process.ask(partial(of_tensor, WEIGHT, partial(search, scheme=SLOW)), 1000.0)
    finally:
        process.close()
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
