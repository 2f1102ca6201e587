"""Tensors are read ahead by several threads, in their order, within the memory there is."""

import math
import random
import subprocess
import sys
import threading

import pytest
import safetensors.torch
import torch

from quantviz.checkpoints.scan import reading
from quantviz.checkpoints.scan.listing import list_checkpoint
from quantviz.checkpoints.scan.planning import plan, smallest_first
from quantviz.checkpoints.scan.reading import GroupReader, TensorMemory
from quantviz.schemes.recipes import RECIPES


@pytest.mark.parametrize("seed", range(20))
def test_what_is_taken_lies_apart_and_is_soon_found(seed):
    chance, size = random.Random(seed), 50
    memory, taken, most = TensorMemory(size), [], 0
    for number in range(1, 400):
        count = chance.randrange(0, 25)
        while (room := memory.take(count)) is None:
            taken.pop(0)
            memory.give_back()
        assert len(room) == count
        room[:] = number
        taken.append(room)
        assert all(len(set(part.tolist())) <= 1 for part in taken), "two parts share a place"
        most = max(most, sum(map(len, taken)))
    assert 0.7 * size < most <= size


@pytest.fixture
def entries(tmp_path):
    tensors = {f"w{k:02}": torch.full((4, 8 + k), float(k)) for k in range(20)}
    safetensors.torch.save_file(tensors, tmp_path / "model.safetensors")
    return list_checkpoint(tmp_path / "model.safetensors").entries


def test_groups_come_in_order_with_their_own_values(entries):
    groups = [entries[:3], entries[3:4], entries[4:11], *([each] for each in entries[11:])]
    for group, held in zip(groups, GroupReader(groups), strict=True):
        assert [each.entry for each in held] == list(group)
        for each in held:
            values = each.values.run(0, each.values.count)
            assert len(values) == math.prod(each.entry.shape)
            assert (values == float(each.entry.name[1:])).all()


def test_what_is_too_large_to_be_held_is_read_ahead_too(entries, monkeypatch):
    monkeypatch.setattr(reading, "MOST_LOADED", 1)
    began, read = [], reading.read_tensor
    third = threading.Event()

    def reading_of(entry, files, buffer):
        began.append(entry.name)
        if len(began) == 3:
            third.set()
        return read(entry, files, buffer)

    monkeypatch.setattr(reading, "read_tensor", reading_of)
    for number, held in enumerate(GroupReader([[each] for each in entries])):
        assert held[0].entry == entries[number]
        assert isinstance(held[0].values, reading.RawTensor)
        assert number or third.wait(30), "nothing is read while the first is measured"
    assert len(began) == len(entries)


def test_a_failure_is_raised_where_its_group_is_waited_for(entries, monkeypatch):
    def read(entry, files, buffer):
        if entry.name == "w05":
            raise RuntimeError("broken")
        return reading.LoadedTensor(entry)

    monkeypatch.setattr(reading, "read_tensor", read)
    seen = []
    with pytest.raises(RuntimeError, match="broken"):
        seen.extend(held[0].entry.name for held in GroupReader([[each] for each in entries]))
    assert seen == ["w00", "w01", "w02", "w03", "w04"]
    assert not [each for each in threading.enumerate() if each.name.startswith("quantviz-read")]


def test_who_stops_early_leaves_no_thread(entries):
    for held in GroupReader([[each] for each in entries]):
        assert held[0].entry.name == "w00"
        break
    assert not [each for each in threading.enumerate() if each.name.startswith("quantviz-read")]


def test_the_smallest_tensor_comes_first_alone(entries):
    schemes = (RECIPES["int8_per_row"], RECIPES["int4_per_tensor"])
    tasks = plan(entries[::-1], schemes)
    assert [len(task.entries) for task in tasks] == [20]
    first, rest = smallest_first(tasks)
    assert [entry.name for entry in first.entries] == ["w00"]
    assert first.positions == (19,)
    assert first.schemes == (schemes,)
    assert rest.positions == tuple(range(19))
    assert [entry.name for entry in rest.entries] == [f"w{k:02}" for k in range(19, 0, -1)]
    assert smallest_first((first,)) == (first,)
    assert smallest_first(()) == ()


def test_a_small_tensor_waits_for_no_kernel(tmp_path):
    file = tmp_path / "model.safetensors"
    safetensors.torch.save_file({"norm": torch.ones(128).bfloat16()}, file)
    program = (
        "import sys\nfrom quantviz.checkpoints.scan.scanning import scan\n"
        f"table = scan({str(file)!r}, ['int8_per_tensor'], results={str(tmp_path / 'kept')!r})\n"
        "assert table.status.tolist() == ['ok']\n"
        "assert 'numba' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
