"""A class before a model that runs: thirty people who all move its bits at once.

    python -m tests.bench.model_bits [--rounds 5] [--own]
    python -m tests.bench.model_bits --changes

Sessions as in `tests.bench.classroom`, on one server that has just started. In each round all thirty choose
other bits within one second, by chance. All have the same other schemes, or with `--own` each those of its
own, so that no answer was computed for another. An answer counts from when the change was due until all of
it has come; the bar is that 95 % take at most 5 s. Others have the Lab open and change something every three
seconds, alone at first and then beside each round: the bar is that 95 % of their answers take at most 1 s.
Prints each round with the seconds of the server's processor an answer, and then all of them.

With `--changes` it prints, without a server, the seconds of a processor that one change to each method takes
on each model when no layer was rounded so before; the bar is 2 s.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import statistics
import sys
import time
from collections.abc import Sequence

import torch
from streamlit.proto.WidgetStates_pb2 import WidgetState

from quantviz.models.model_schemes import LayerSchemes, scheme_of_bits
from quantviz.models.running import run_built_in as run
from quantviz.ui.checkpoints.model_state import CACHES, INPUTS, METHODS, RUNNING, SHARED
from tests.bench.classroom import Answers, Session, processor, steady
from tests.bench.servers import ROOT, server_process

#: People, and the seconds within which all of them move the bits.
PEOPLE, WITHIN = 30, 1.0
#: 95 % of the answers within so many seconds.
P95 = 5.0
#: People on the Lab, the seconds for which they change something, and the bar of 95 % of their answers.
OTHERS, BESIDE, P95_OTHERS = 4, 9.0, 1.0
#: The most seconds of a processor that a change takes.
A_CHANGE = 2.0
#: The part of the page that is open: the error through depth, which takes no more runs.
_PART = "depth"


class Mover(Session):
    """One browser tab in which somebody moves the bits."""

    def _some_change(self) -> WidgetState:
        name, element = next(
            (name, element) for name, (_, element) in self._widgets.items() if name.endswith("-models_bits")
        )
        before = self._states.get(name)
        now = before.string_array_value.data[0] if before else element.options[int(element.default[0])]
        state = WidgetState(id=name)
        state.string_array_value.data.append(
            self.random.choice([each for each in element.options if each != now])
        )
        return state


def queries(own: bool) -> list[str]:
    """The query of each session."""
    schemes = itertools.product(METHODS, SHARED, INPUTS, CACHES, RUNNING)
    found = [
        # At 16 bits a page opens without a search.
        f"f={model}&part={_PART}&bits=16&method={method}&g={shared}&act={inputs}&kv={cache}"
        for method, shared, inputs, cache, model in schemes
    ]
    if not own:
        return [f"f={next(iter(RUNNING))}&part={_PART}"] * PEOPLE
    # Evenly spaced: some of every method, none twice.
    return [found[number * len(found) // PEOPLE] for number in range(PEOPLE)]


def changes() -> bool:
    """Print the seconds of a change to each method, and return whether one takes longer than the bar."""
    # As on the server.
    torch.set_num_threads(1)
    slowest = 0.0
    for model in RUNNING.values():
        # What the original writes, its loss, and what it is calibrated on, is there.
        before = run(model, LayerSchemes(scheme_of_bits(4), "int8_per_row", "gptq"))
        assert before.written
        assert before.kl
        for method, inputs in itertools.product(METHODS, INPUTS.values()):
            start = time.process_time()
            found = run(model, LayerSchemes(scheme_of_bits(3), inputs, method))
            words = f"loss {found.loss:.2f}, KL {found.kl:.3g}, differs at {found.first_difference}"
            taken = time.process_time() - start
            slowest = max(slowest, taken)
            print(f"{model}, {method}, inputs {inputs}: {taken:.2f} s   ({words})", flush=True)
    return slowest > A_CHANGE


async def moved(sessions: Sequence[Session]) -> Answers:
    """Each moves the bits within `WITHIN` seconds."""
    answers = Answers()
    start = time.monotonic()
    await asyncio.gather(
        *(answers.time(start + session.random.uniform(0, WITHIN), session.change) for session in sessions)
    )
    return answers.of(sessions)


async def measure(rounds: int, own: bool) -> tuple[Answers, Answers]:
    """All answers of some rounds on a server of its own, and those of the others meanwhile."""
    found = Answers()
    beside = Answers()
    with server_process(ROOT / "app.py", cwd=ROOT) as (address, process):
        sessions = [Mover(address, "checkpoints", query, n) for n, query in enumerate(queries(own))]
        others = [Session(address, "lab", "", PEOPLE + n) for n in range(OTHERS)]
        for session in (*others, *sessions):
            await session.open()
        print(f"  others alone: {_report(await steady(others, BESIDE))}", flush=True)
        for number in range(rounds):
            began = processor(process)
            answers, of_others = await asyncio.gather(moved(sessions), steady(others, BESIDE))
            taken = (processor(process) - began) / (len(answers.seconds) + len(of_others.seconds))
            print(f"  round {number + 1}: {_report(answers)}   processor {taken:.2f} s an answer", flush=True)
            print(f"   others: {_report(of_others)}", flush=True)
            found.add(answers)
            beside.add(of_others)
        for session in (*others, *sessions):
            await session.close()
    return found, beside


def _report(answers: Answers) -> str:
    middle = statistics.median(answers.seconds) if answers.seconds else float("nan")
    return (
        f"{len(answers.seconds)} answers   p50 {middle:.2f} s   p95 {answers.p95:.2f} s"
        f"   max {answers.worst:.2f} s   dropped {len(answers.dropped)}   errors {len(answers.errors)}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--own", action="store_true", help="each session has schemes of its own")
    parser.add_argument("--changes", action="store_true", help="seconds of one change, without a server")
    options = parser.parse_args()
    if options.changes:
        sys.exit(changes())
    missed = False
    for answers, bar in zip(
        asyncio.run(measure(options.rounds, options.own)), (P95, P95_OTHERS), strict=True
    ):
        print(_report(answers))
        for error in sorted(set(answers.errors + answers.dropped))[:5]:
            print(f"  {error}")
        missed |= bool(answers.dropped or answers.errors or not answers.p95 <= bar)
    sys.exit(missed)


if __name__ == "__main__":
    main()
