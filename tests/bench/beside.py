"""What one person's link costs others on a server: `python -m tests.bench.beside links`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from streamlit.proto.WidgetStates_pb2 import WidgetState

from tests.bench.classroom import Answers, Dropped, Session, memory, processor, steady
from tests.bench.runner import case, main
from tests.bench.servers import server_process

_LAYER = "l=layer(normal(rows={0},cols={1}),normal(rows={2},cols={1},seed=1))"
_SQUARE = _LAYER.format(4096, 4096, 32)
#: Links that would hold a server that does their work itself.
LINKS = (
    f"layers?{_SQUARE}",
    *(f"layers?{_SQUARE}&m={method}" for method in ("low_rank", "awq", "gptq", "rotation", "kmeans")),
    f"layers?{_LAYER.format(16384, 2, 16384)}",
    f"layers?{_LAYER.format(8, 32, 64)}&m=signround(steps=5000)",
    f"layers?{_LAYER.format(16, 4096, 8192)}&m=awq&t=method",
    "lab?t=normal(rows=4096,cols=4096)&s=int4,symmetric,per_group(size=32),min_max,course",
    "lab?t=normal(rows=2048,cols=2048)&s=int8,symmetric,per_group(size=2),mse,course",
    "checkpoints?f=model:character&bits=3",
    "golf?",
    "formats?",
)
#: Seconds between two changes of somebody, the answer that nobody may wait longer for, and 95 % of a class's.
EVERY, SLOWEST, P95 = 0.5, 0.5, 2.0
#: Seconds between two changes of one of a class, and those of the class.
PACE, CLASS_SECONDS = 12.0, 40.0
#: The field of the methods, and so many methods of the page's list, the first ones, are tried by a class.
_METHOD, METHODS = "layers_method_choice", 6
#: The share by which memory may exceed that before, a minute after the last answer; and that minute.
LEFT, IDLE = 0.1, 60.0


class Chooser(Session):
    """A tab of the page of layers, in which somebody tries methods."""

    def _some_change(self) -> WidgetState:
        methods = [each for each in self.choices() if each[1] == _METHOD]
        return self.choice(*self.random.choice(methods[:METHODS]))


async def work(person: Session, until: asyncio.Event) -> Answers:
    """Change something every `EVERY` seconds."""
    answers, due = Answers(), time.monotonic()
    while not until.is_set() and await answers.time(due, person.change):
        due = max(due + EVERY, time.monotonic())
    return answers


async def beside(address: str, process: int, person: Session, link: str, seconds: float) -> None:
    """Print what a link costs somebody else."""
    alone, over = asyncio.Event(), asyncio.Event()
    asyncio.get_running_loop().call_later(5.0, alone.set)
    before = await work(person, alone)
    began, taken = time.monotonic(), processor(process)
    page, _, query = link.partition("?")
    other = Session(address, page, query, 1)
    answer = asyncio.create_task(work(person, over))
    said = "answered"
    try:
        await asyncio.wait_for(other.open(), seconds)
    except (Dropped, TimeoutError):
        said = "left"
    if other.errors:
        said = f"refused: {other.errors[0][-160:]}"
    waited = time.monotonic() - began
    await asyncio.sleep(max(0.0, 3.0 - waited))
    over.set()
    with suppress(Dropped, OSError):
        await other.close()
    found = await answer
    lost = f", lost: {found.dropped}" if found.dropped else ""
    print(
        f"{'MISS' if found.worst > SLOWEST else 'ok':4} others {before.worst:.2f} → {found.worst:.2f} s"
        f" (95 %: {before.p95:.2f} → {found.p95:.2f}); server {processor(process) - taken:.1f} CPU s;"
        f" {waited:.1f} s {said}{lost}"
        f"  {link[:100]}",
        flush=True,
    )


async def crowd(address: str, size: int) -> Answers:
    """Return the answers to a class that opens the page of layers and tries methods."""
    people = [Chooser(address, "layers", "t=method", seed) for seed in range(size)]
    for each in people:
        await each.open()
    answers = await steady(people, CLASS_SECONDS, PACE)
    for each in people:
        await each.close()
    return answers


def tree(process: int) -> int:
    """Return the bytes of a process and of those that it started."""
    children = Path(f"/proc/{process}/task").glob("*/children")
    found = [int(each) for file in children for each in file.read_text(encoding="ascii").split()]
    return memory(process) + sum(map(tree, found))


async def measure(address: str, process: int, asked: Sequence[str], people: int, seconds: float) -> None:
    person = Session(address, "lab", "", 7)
    await person.open()
    await person.change()
    before = tree(process)
    for link in asked:
        await beside(address, process, person, link, seconds)
    print(f"memory {before / 2**20:.0f} → {tree(process) / 2**20:.0f} MiB", flush=True)
    if people:
        taken = processor(process)
        answers = await crowd(address, people)
        miss = "MISS" if answers.p95 > P95 else "ok"
        each = (processor(process) - taken) / max(1, len(answers.seconds) + people)
        about = (
            f"95 % {answers.p95:.2f} s, slowest {answers.worst:.2f} s; server {1000 * each:.0f} ms an answer"
        )
        print(f"{miss:4} class of {people}: {about} {answers.errors[:1]}", flush=True)
    peak = tree(process)
    await person.close()
    await asyncio.sleep(IDLE)
    after = tree(process)
    miss = "MISS" if after > before * (1 + LEFT) else "ok"
    print(f"     of it the server {memory(process) / 2**20:.0f} MiB")
    print(f"{miss:4} memory {before / 2**20:.0f} → {peak / 2**20:.0f} → {after / 2**20:.0f} MiB", flush=True)


@case
def links(link: tuple[str, ...] = LINKS, people: int = 60, seconds: float = 90.0) -> None:
    """The answers to somebody who works beside another's link (bar 0.5 s), and the server's own processor.

    For each link, such as "layers?m=awq": the slowest answer to somebody else alone and beside it in one run,
    the seconds of the processor that the server took itself, and those until the link was answered. Then a
    class opens one layer, and everybody chooses methods (95 % within 2 s); and the memory of all processes a
    minute later (1.1 times that before).
    """
    with server_process() as (address, process):
        asyncio.run(measure(address, process, link, people, seconds))


if __name__ == "__main__":
    main()
