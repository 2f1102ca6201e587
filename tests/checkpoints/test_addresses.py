"""Checkpoints at addresses: read by ranges from a web server, and from what fsspec reads."""

import asyncio
import collections
import dataclasses
import json
import sys
import types

import pytest
import safetensors.torch
import torch
from click.testing import CliRunner

import quantviz as qv
from quantviz.checkpoints.results.store import Results
from quantviz.checkpoints.scan import cluster, reading, scanning, tasks
from quantviz.checkpoints.scan.listing import list_checkpoint
from quantviz.checkpoints.scan.planning import plan
from quantviz.checkpoints.scan.recipes import recipes_named
from quantviz.checkpoints.scan.scanning import run_scan
from quantviz.checkpoints.scan.tasks import Measures, measure_task
from quantviz.cli import quantviz
from quantviz.errors import QuantVizError
from quantviz.sources.stores import object_store, store_data
from quantviz.sources.stores.store import About
from quantviz.sources.stores.web import WebStore
from quantviz.text import languages
from tests.helpers.drawn import normal as values
from tests.helpers.gguf_file import Entry, gguf_file
from tests.helpers.hub import COMMIT, REPO, serving
from tests.helpers.ports import free_port

fsspec = pytest.importorskip("fsspec", reason="the extra quantviz[cluster] is not installed")
RECIPES = ("int8_per_row", "int4_g32")


@pytest.fixture(scope="module")
def content():
    tensors = {f"layers.{k}.weight": values(16, 256, seed=k).bfloat16() for k in range(6)}
    tensors |= {"large": values(96, 1024), "ids": torch.arange(4)}
    return safetensors.torch.save(tensors)


@pytest.fixture
def local(content, tmp_path):
    (tmp_path / "local").mkdir()
    (tmp_path / "local" / "model.safetensors").write_bytes(content)
    return tmp_path / "local" / "model.safetensors"


@pytest.fixture
def memory(content):
    """A folder in fsspec's memory."""
    files = fsspec.filesystem("memory")
    files.pipe("/model/model.safetensors", content)
    yield files
    files.rm("/model", recursive=True)


def schemes():
    return [scheme for _, scheme in recipes_named(RECIPES)]


def address(hub, name="model.safetensors"):
    return f"{hub.origin}/{REPO}/resolve/{COMMIT}/{name}"


def scanned(path, tmp_path, name="r.sqlite"):
    return qv.scan(path, RECIPES, results=tmp_path / name)


def without_file(found):
    return found.drop(columns="file").to_csv()


def measured(path, tmp_path):
    """Scan into one file of results, and return how many rows were measured for it."""
    with Results(tmp_path / "kept.sqlite") as opened:
        return opened.scan(run_scan(opened, path, RECIPES)).progress.measured


def key_of(call, *args, **named):
    with pytest.raises(QuantVizError) as caught:
        call(*args, **named)
    assert all(caught.value.message(language) for language in languages())
    return caught.value.key


def test_a_web_server_gives_the_local_table_by_ranges(content, local, tmp_path, monkeypatch):
    wanted = without_file(scanned(local, tmp_path))
    # The large one comes in pieces of its own, some at once, and is measured in bands where it is too large.
    monkeypatch.setattr(WebStore, "range_bytes", 2**15)
    monkeypatch.setattr(store_data, "_MOST_EXPECTED", 2**16)
    monkeypatch.setattr(WebStore, "first_bytes", 2**8)
    monkeypatch.setattr(store_data.StoreData, "bytes_per_read", 2**17)
    with serving({"model.safetensors": content}) as hub:
        found = scanned(address(hub) + "?signature=secret", tmp_path, "web.sqlite")
        assert without_file(found) == wanted
        assert set(found.file) == {address(hub)}
        assert b"secret" not in (tmp_path / "web.sqlite").read_bytes()
        asked = [last + 1 - first for first, last in hub.ranges]
        assert len(asked) > 12
        assert max(asked) == 2**15
        assert sum(asked) < len(content) + 2**13
        # Its ETag says that it is what it was: only the header is read again.
        before = len(hub.ranges)
        scanned(address(hub), tmp_path, "web.sqlite")
        assert sum(last + 1 - first for first, last in hub.ranges[before:]) < 2**13
        monkeypatch.setattr(reading, "MOST_LOADED", 2**14)
        in_bands = scanned(address(hub), tmp_path, "bands.sqlite")
        assert in_bands.content.equals(found.content)
        assert in_bands.mse.dropna().tolist() == pytest.approx(found.mse.dropna().tolist(), rel=1e-6)
        # A worker opens the file by itself, and reads no more than its bands.
        monkeypatch.setattr(cluster, "WORK", 2**16)
        monkeypatch.setattr(tasks, "BAND", 2**14)
        listed = list_checkpoint(address(hub)).entries
        (large,) = (task for task in plan(listed, schemes()) if task.entries[0].name == "large")
        wanted_rows = {row.key: (row.numbers, row.max_error_at) for row in measure_task(large)[0].rows}
        jobs, came = cluster.ScanJobs([large], lambda content: ()), []
        hub.asked.clear()
        while jobs.waiting:
            job = jobs.waiting.popleft()
            before = len(hub.ranges)
            came.append(jobs.take(job, job.call(*job.arguments)))
            sizes = [last + 1 - first for first, last in hub.ranges[before:]]
            assert sum(sizes) < (2**19 if job.call is tasks.survey else 2 * 2**16 + 2**13)
        (done,) = filter(None, came)
        assert len(came) == 4
        assert {row.key: (row.numbers, row.max_error_at) for row in done.measures[0].rows} == wanted_rows
        # Where nothing tells whether it is what it was, one worker reads all of it.
        unsure = dataclasses.replace(large, entries=(dataclasses.replace(large.entries[0], version=""),))
        assert [job.call for job in cluster.ScanJobs([unsure], lambda content: ()).waiting] == [measure_task]


def test_a_store_that_fsspec_reads(content, local, memory, tmp_path, monkeypatch):
    wanted = scanned(local, tmp_path)
    assert without_file(scanned("memory://model/model.safetensors", tmp_path, "m.sqlite")) == without_file(
        wanted
    )
    assert measured("memory://model/model.safetensors", tmp_path) == 14
    with monkeypatch.context() as here:
        here.setattr(scanning, "GroupReader", None)  # nothing is read again
        assert measured("memory://model/model.safetensors", tmp_path) == 0
    changed = bytearray(content)
    changed[-1] ^= 1
    memory.pipe("/model/model.safetensors", bytes(changed))
    assert measured("memory://model/model.safetensors", tmp_path) == 2

    index = dict.fromkeys(dict.fromkeys(wanted.tensor), "model.safetensors") | {"lost": "no.safetensors"}
    memory.pipe("/model/model.safetensors", content)
    for path in ("memory://model", "memory://model/", "memory://model/model.safetensors.index.json"):
        found = scanned(path, tmp_path, "f.sqlite")
        assert found.status.value_counts().to_dict() == {
            "ok": 14, "left_aside": 2, **({"problem": 2} if "lost" in found.tensor.tolist() else {})
        }  # fmt: skip
        memory.pipe("/model/model.safetensors.index.json", json.dumps({"weight_map": index}).encode())
    assert "lost" in found.tensor.tolist()
    memory.pipe("/model/x.gguf", gguf_file([Entry("x", (32, 4), 0, values(4, 32).numpy().tobytes())]))
    done = CliRunner().invoke(
        quantviz,
        [
            "scan",
            "memory://model/x.gguf",
            "-rq8_0",
            "--format",
            "json",
            "--results",
            str(tmp_path / "g.sqlite"),
        ],
    )
    assert (done.exit_code, [row["status"] for row in json.loads(done.stdout)]) == (0, ["ok"]), done.stderr


@pytest.mark.parametrize(
    ("lie", "key"),
    [
        *(("cut", "broken_off"), ("short", "wrong_range"), ("long", "wrong_range")),
        ("elsewhere", "wrong_range"),
        *(("size", "file.too_large"), ("whole", "no_ranges"), ("404", "missing"), ("401", "denied")),
        *(("tag", "changed"), ("500", "answered"), ("stall", "slow")),
        ("to http://localhost:1/x", "answered"),
    ],
)  # fmt: skip
def test_a_server_that_lies_makes_problems_and_no_numbers(lie, key, content, tmp_path, monkeypatch):
    monkeypatch.setenv("QUANTVIZ_HUB_QUIET_SECONDS", "1")
    with serving({"model.safetensors": content}) as hub:
        entries = list_checkpoint(address(hub)).entries
        (task,) = plan(entries, [qv.RECIPES["int8_per_row"]])
        hub.lie = lie
        hub.asked.clear()
        done = measure_task(task)
    assert len(done) == 7
    assert {(each.problem.key, each.rows) for each in done} == {(key if "." in key else f"store.{key}", ())}
    assert all(each.problem.message(language) for each in done for language in languages())


def test_a_file_that_is_replaced_between_listing_and_reading(content, memory):
    entries = list_checkpoint("memory://model/model.safetensors").entries
    (task,) = plan(entries, [qv.RECIPES["int8_per_row"]])
    memory.pipe("/model/model.safetensors", content)
    assert {each.problem.key for each in measure_task(task)} == {"file.changed"}
    # A cluster that has the old file's task keeps it apart from the new one's, and another's lack is no
    # problem of the tensors.
    (other,) = plan(list_checkpoint("memory://model/model.safetensors").entries, task.schemes[0])
    assert cluster._key(task) == cluster._key(task) != cluster._key(other)
    lacking = Measures(task.entries[0], "", (), QuantVizError("store.needs_package", store="s3", reason="x"))
    with pytest.raises(QuantVizError):
        cluster.ScanJobs([], list).check(cluster._whole(task), (lacking,) * len(task.entries), "tcp://x")


def test_stores_that_cut_change_or_fail(content, memory, monkeypatch):
    place = "memory://model/model.safetensors"
    whole = memory.cat_ranges
    (task,) = plan(list_checkpoint(place).entries, [qv.RECIPES["int8_per_row"]])

    def keys(cat_ranges):
        with monkeypatch.context() as here:
            here.setattr(
                type(memory), "cat_ranges", lambda self, *given, **named: cat_ranges(*given, **named)
            )
            return {each.problem and each.problem.key for each in measure_task(task)}

    def shortened(*given, **named):
        return [part[:-1] for part in whole(*given, **named)]

    def failing(*given, **named):
        raise OSError("https://host/x?token=secret is away")

    def once(*given, **named):
        tries.append(1)
        return shortened(*given, **named) if len(tries) == 1 else whole(*given, **named)

    def changing(*given, **named):
        memory.pipe("/model/model.safetensors", content[::-1])
        return whole(*given, **named)

    tries = []
    assert keys(shortened) == {"store.cut"}
    assert keys(failing) == {"store.failed"}
    assert keys(once) == {None}
    assert keys(changing) == {"store.changed"}
    with pytest.raises(QuantVizError) as caught:
        object_store._called(place, failing)
    assert "secret" not in str(caught.value)


class Refusing:
    """A value of a library's own that raises at whatever is asked of it."""

    def _refuse(self, *_):
        raise RuntimeError

    __bool__ = __len__ = __iter__ = __eq__ = __str__ = __repr__ = __getitem__ = __hash__ = _refuse


class Liar:
    """A file system whose methods answer as told, and rightly where nothing is told."""

    RIGHT = types.MappingProxyType(
        {
            "invalidate_cache": None,
            "info": {"name": "/x", "type": "file", "size": 3, "ETag": "a"},
            "cat_ranges": [b"a", b"bc"],
            "ls": [{"name": "/x/y.gguf", "type": "file", "size": 3}],
            "isdir": True,
        }
    )

    def __init__(self, **told):
        self.told = told

    def __getattr__(self, name):
        answer = self.told.get(name, self.RIGHT[name])

        def call(*_, **__):
            if isinstance(answer, BaseException):
                raise answer
            return answer

        return call


#: What a library may answer in place of what is asked of it, and raise.
ANSWERS = (
    *(
        None,
        True,
        -1,
        2**70,
        0.5,
        float("nan"),
        "text",
        b"bytes",
        {},
        [],
        (),
        [None, None],
        [b"a"],
        [b"a"] * 3,
    ),
    *([b"a", b""], [b"a", "bc"], [b"a", 2], [b"a", [98, 99]], [b"a", KeyError("x")], [b"a", SystemExit()]),
    *([b"a", Refusing()], Refusing(), [Refusing()], iter([b"a", b"bc"]), object(), {"size": Refusing()}),
    *({"size": 3, "ETag": Refusing()}, {"size": True}, {"size": "3"}, {"size": 2**70}, {"type": Refusing()}),
    *(
        {"size": 3, "ETag": "\ud800" * 10**6},
        {"size": 3, Refusing: 1},
        [{}],
        [{"name": None}],
        [{"name": "x"}],
    ),
    *(["x.gguf"], [{"name": "/x/\ud800.gguf"}, {"name": "/x/ \n.gguf"}], [{"name": "/"}], [["name"]]),
)
RAISED = (
    *(
        KeyError("x"),
        OSError(),
        TypeError("\ud800" * 10**6),
        RecursionError(),
        MemoryError(),
        StopIteration(),
    ),
    *(asyncio.CancelledError(), ImportError(), FileNotFoundError(), PermissionError(), UnicodeError("x")),
    *(ExceptionGroup("several", [OSError()]), type("Own", (Exception,), {"__str__": Refusing.__str__})()),
)


@pytest.mark.parametrize("method", Liar.RIGHT)
def test_whatever_a_library_of_a_store_answers_is_a_sentence_or_typed(method):
    place, store = "memory://model/x.gguf", object_store.ObjectStore("memory://model")
    fates = collections.Counter()
    longest = 0
    for answer in (*ANSWERS, *RAISED):
        store._files = Liar(**{method: answer})
        for ask in (
            lambda: store.about(place),
            lambda: store.read(place, [(0, 1), (1, 3)], About(3, "etag=a")),
            lambda: store.names(place),
        ):
            try:
                found = ask()
            except QuantVizError as error:
                fates[error.key] += 1
                longest = max(longest, *(len(error.message(language)) for language in languages()))
                continue
            except BaseException as raw:  # which pytest could not always write
                raise AssertionError(method, type(raw).__name__) from None
            fates[type(found).__name__] += 1
            if isinstance(found, About):
                assert type(found.size) is int
                assert 0 <= found.size < 2**63
                assert len(found.version) < 600
                assert found.version.isprintable()
            else:
                assert all(type(each) in (bytes, str) for each in found)
                assert found == [b"a", b"bc"] or all(each.isprintable() for each in found)
    assert longest < 700
    assert {"store.failed", "store.missing", "store.denied", "store.needs_package"} <= set(fates), fates


def test_a_folder_of_a_store_has_a_bound(monkeypatch):
    monkeypatch.setattr(object_store, "MOST_NAMES", 2)
    store = object_store.ObjectStore("memory://model")
    store._files = Liar(ls=Liar.RIGHT["ls"] * 3)
    assert key_of(store.names, "memory://model") == "store.too_many_files"


def test_addresses_that_cannot_be_read_are_sentences(memory, tmp_path, monkeypatch):
    for path, key in {
        "memory://model/none.safetensors": "store.missing",
        "memory://nothing": "store.missing",
        "memory://model/weights.bin": "store.missing",
        "nonsense://x.safetensors": "store.unknown_scheme",
        "s3://bucket/model.safetensors": "store.needs_package",
        f"http://127.0.0.1:{free_port()}/folder": "store.unreachable",
        "http://me:secret@host/x.safetensors": "store.address",
        "http://[/x.safetensors": "store.address",
        f"http://127.0.0.1:{free_port()}/x.safetensors": "store.unreachable",
    }.items():
        assert (path, key_of(scanned, path, tmp_path)) == (path, key)
    memory.pipe("/model/weights.bin", b"PK\x03\x04 something")
    assert key_of(scanned, "memory://model/weights.bin", tmp_path) == "store.unknown_kind"
    memory.rm("/model/model.safetensors")
    assert key_of(scanned, "memory://model", tmp_path) == "checkpoint.empty_folder"
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    assert key_of(scanned, "memory://model/x.safetensors", tmp_path) == "store.not_installed"


@pytest.mark.parametrize("name", ["blobs/0123abcd", "weights.bin", "weights.gguf"])
def test_the_content_at_an_address_decides_whatever_its_name(content, local, memory, tmp_path, name):
    wanted = without_file(scanned(local, tmp_path))
    memory.pipe(f"/other/{name}", content)
    assert without_file(scanned(f"memory://other/{name}", tmp_path)) == wanted
    with serving({name.replace("/", "-"): content}) as hub:
        found = scanned(address(hub, name.replace("/", "-")), tmp_path)
        assert without_file(found) == wanted
