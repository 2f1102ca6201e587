"""Files brought to a door, or dropped on any page: each goes to the page that answers it."""

import errno
import gc
import io
import json
import tempfile
from types import SimpleNamespace

import numpy as np
import pytest
import streamlit as st
import torch
from safetensors.torch import save
from torch import nn

import quantviz as qv
from quantviz.budget import Ended
from quantviz.lab.layer_state import LayerState
from quantviz.sources import sandbox
from quantviz.sources.hubs import models
from quantviz.sources.local import FOLDER
from quantviz.streaming.regions import read_whole
from quantviz.ui.checkpoints import choices
from quantviz.ui.components.drop_zone import BROUGHT
from quantviz.ui.drop import taking
from quantviz.ui.lab import dropped_files as dropped
from quantviz.ui.lab.dropped_files import dropped_files
from quantviz.ui.shell import bounds
from tests.helpers.controls import choose, words_of
from tests.helpers.gguf_file import Entry, gguf_file
from tests.helpers.hub import COMMIT, REPO, serving
from tests.helpers.session import address, arrived, bring, healthy, lab_state, npz, opened

MODEL = "pages/explore/checkpoints.py"
LAYERS = "pages/explore/layers.py"
LESSONS = "pages/learn/lessons.py"
GOLF = "pages/learn/golf.py"
WEIGHTS = {
    "fc1.bias": torch.zeros(8),
    "fc1.weight": torch.randn(8, 64),
    "fc2.weight": torch.randn(4, 8),
    "fc2.bias": torch.zeros(4),
}


@pytest.fixture
def asked(monkeypatch):
    """The scans that are begun."""
    found = []
    monkeypatch.setattr(
        choices, "start_scan", lambda path, recipes, *more: found.append((path, recipes, *more))
    )
    return found


@pytest.fixture(scope="module")
def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).eval()


def plain(markdown):
    return markdown.replace("\\", "")


def state_dict(values):
    file = io.BytesIO()
    torch.save(values, file)
    return file.getvalue()


@pytest.mark.parametrize(
    "files",
    [
        {"net.pt": state_dict(WEIGHTS)},
        {
            "config.json": b"{}",
            "model-00001-of-00002.safetensors": save({"a.weight": torch.ones(4, 4)}),
            "model-00002-of-00002.safetensors": save({"b.weight": torch.ones(4, 4)}),
            "README.md": b"# not of the model",
        },
    ],
    ids=lambda files: "+".join(files),
)
def test_several_weights_go_to_the_model_and_are_scanned(asked, files):
    at = bring(opened(LESSONS, lang="en"), "drop_anywhere", files)
    assert address(healthy(at))["f"] == "model:upload"
    (path, recipes, _, _, results), *_ = asked
    # Recipes of any width come first, so that a narrow model gets a number.
    assert recipes[0] == "int4_per_row"
    # Called after a file of weights, not after what lies beside them.
    assert words_of(at, "checkpoints_chosen")[0].startswith(("net", "model"))
    kept = sorted(each.name for each in path.iterdir()) if path.is_dir() else [path.name]
    assert kept == sorted(set(files) - {"README.md"})
    # What is measured of it stays in the session's own folder.
    assert results.parent == (path.parent.parent if path.is_file() else path.parent)


def test_a_capture_goes_to_its_maps_and_a_pair_of_runs_is_compared(net, tmp_path):
    batches = [torch.randn(8, 8)]
    layers = tmp_path / "layers.safetensors"
    qv.collect(net, batches).save(layers)
    at = bring(opened(MODEL, lang="en"), "drop_anywhere", {layers.name: layers.read_bytes()})
    assert address(healthy(at))["f"] == "capture:upload"
    said = " ".join(each.proto.body for each in at.get("html"))
    assert "number 1 of 2" in said or "number 2 of 2" in said
    for name in ("a", "b"):
        qv.capture(net, batches, tmp_path / f"{name}.safetensors")
    files = {f"{name}.safetensors": (tmp_path / f"{name}.safetensors").read_bytes() for name in ("a", "b")}
    at = bring(at, "drop_anywhere", files)
    assert address(healthy(at))["f"] == "runs:upload"
    (report,) = at.get("iframe")
    assert "every compared tensor equals" in str(report.proto)
    at = bring(at, "drop_anywhere", {"a.safetensors": files["a.safetensors"]})
    assert "is one run of a model" in at.warning[0].value


W, X = np.random.default_rng(0).normal(size=(4, 8)), np.random.default_rng(1).normal(size=(6, 8))


def test_weights_with_inputs_go_to_their_maps(asked):
    """However they are called: `tests/layers/test_collecting.py` has the names."""
    arrays = {"fc1_weight": W, "fc1_x": X, "fc2_weight": W, "fc2_x": X[:, :5]}
    at = bring(opened(MODEL, lang="en"), "drop_files", {"net.npz": npz(**arrays)})
    assert address(healthy(at))["f"] == "capture:upload"
    assert not asked
    assert list(at.dataframe[0].value["layer"]) == ["fc1"]
    said = [plain(each.value) for each in at.caption if "has no inputs of theirs" in each.value]
    assert [each.partition("): ")[2] for each in said] == ["fc2_weight, fc2_x."]
    at.button(key="checkpoints_capture_open").click().run()
    assert healthy(at).session_state["layers_state"].now.source.shape == (6, 8, 4)


def test_weights_with_inputs_in_the_folder_are_a_capture_too(monkeypatch, tmp_path):
    monkeypatch.setenv(FOLDER, str(tmp_path))
    (tmp_path / "net.npz").write_bytes(npz(W1=W.T, X1=X.reshape(2, 3, 8)))
    at = opened(MODEL, f="net.npz", lang="en")
    at.button(key="checkpoints_capture_open").click().run()
    state, problems = LayerState.read(address(healthy(at)))
    assert problems == ()
    layer = state.source.open()
    assert np.array_equal(read_whole(layer.weight), W.astype(np.float32))
    assert np.array_equal(read_whole(layer.inputs), X.astype(np.float32))


def test_one_weight_goes_to_the_lab_and_never_its_bias_first(asked):
    file = {"fc.npz": npz(bias=np.ones(4, np.float32), weight=np.eye(4, dtype=np.float32))}
    at = bring(opened(LESSONS, lang="en"), "drop_anywhere", file)
    assert lab_state(at).source.shape == (4, 4)
    assert not asked


def test_a_scan_that_is_refused_says_so_on_the_model_s_page(monkeypatch):
    def refuse(*asked):
        raise qv.QuantVizError("checkpoint.not_offered", file="the net")

    monkeypatch.setattr(choices, "start_scan", refuse)
    at = bring(opened(LESSONS, lang="en"), "drop_anywhere", {"net.pt": state_dict(WEIGHTS)})
    assert address(healthy(at))["f"] == "model:upload"
    assert "the net" in " ".join(plain(each.value) for each in at.warning)


def test_a_pickled_model_is_refused_with_the_line_that_saves_it(net):
    at = bring(opened("pages/learn/bugs.py", lang="en"), "drop_anywhere", {"whole.pt": state_dict(net)})
    assert ".state_dict()" in plain(at.warning[0].value)
    assert not at.exception


def test_another_session_has_none_of_it_and_a_link_says_so(asked):
    at = bring(opened(LESSONS, lang="en"), "drop_anywhere", {"net.pt": state_dict(WEIGHTS)})
    other = arrived(MODEL, f=address(at)["f"], lang="en")
    assert "Drop it again" in " ".join(each.value for each in other.error)


def test_files_without_tensors_get_a_sentence(asked):
    report = json.dumps([{"tensor": "0", "shape": [8, 64], "sqnr_db": 9.5}]).encode()
    at = bring(opened(MODEL, lang="en"), "drop_files", {"runs.json": report})
    assert "is a report of QuantViz" in plain(at.warning[0].value)
    at = bring(at, "drop_files", {"a.txt": b"1", "b.md": b"2"})
    assert "None of these files" in plain(at.warning[0].value)
    two = {"a/w.npz": npz(x=np.eye(4)), "b/w.npz": npz(x=np.eye(4))}
    at = bring(at, "drop_files", two)
    assert "same name" in plain(at.warning[0].value)
    assert not asked


def test_a_tensor_dropped_on_golf_opens_in_the_lab_and_one_that_cannot_be_read_is_told_on_golf():
    at = bring(opened(GOLF, lang="en"), "drop_anywhere", {"w.npy": b"none"})
    assert "w.npy" in plain(at.warning[0].value)
    at = bring(at, "drop_anywhere", {"w.npz": npz(w=W)})
    assert lab_state(healthy(at)).source.shape == W.shape


def test_files_that_do_not_fit_on_the_disk_leave_nothing_there(monkeypatch, tmp_path):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(dropped, "put_whole", full)
    with pytest.raises(OSError, match="No space"):
        dropped.keep_dropped("model:upload", [SimpleNamespace(name="a.pt", getvalue=lambda: b"1")])
    gc.collect()
    assert not list(tmp_path.iterdir())


def test_too_much_together_is_refused_before_it_is_written(asked, monkeypatch):
    monkeypatch.setattr("quantviz.ui.drop.taking.DROPPED_BYTES", 100)
    at = bring(opened(MODEL, lang="en"), "drop_files", {"net.pt": state_dict(WEIGHTS)})
    assert "at most 100" in at.warning[0].value
    assert bounds.DROPPED_BYTES == 2**30
    assert not asked
    with pytest.raises(qv.QuantVizError):
        dropped_files("model:upload")


def test_a_file_that_takes_too_much_to_list_says_so(asked, monkeypatch):
    def too_much(work, key, cost, **more):
        raise Ended("work.memory", most=3)

    monkeypatch.setattr(sandbox.runner(), "submit", too_much)
    before = len(asked)
    at = bring(opened(MODEL, lang="en"), "drop_files", {"net.pt": state_dict(WEIGHTS)})
    assert "Use quantviz scan" in at.warning[0].value
    assert len(asked) == before


def test_an_address_without_a_listed_hub_says_how_hubs_are_listed():
    at = opened(MODEL, lang="en")
    choose(at, ("drop_address", "org/model"))
    assert "QUANTVIZ_HUBS" in plain(at.warning[0].value)


SHARD = "model-0000{}-of-00002.safetensors"
PUBLISHED = {
    SHARD.format(1): save({"a.weight": torch.randn(8, 64)}),
    SHARD.format(2): save({"b.weight": torch.randn(8, 64)}),
    "model.safetensors.index.json": json.dumps(
        {"weight_map": {"a.weight": SHARD.format(1), "b.weight": SHARD.format(2)}}
    ).encode(),
    "sub/net 1.safetensors": save(WEIGHTS),
    "sub/net.gguf": gguf_file(
        [Entry(name, tuple(reversed(x.shape)), 0, x.numpy().tobytes()) for name, x in WEIGHTS.items()]
    ),
}


@pytest.fixture
def hub(tmp_path, monkeypatch):
    models._found_once.cache_clear()
    models._catalog.cache_clear()
    monkeypatch.setenv("QUANTVIZ_CACHE_DIR", str(tmp_path))
    with serving(PUBLISHED) as hub:
        monkeypatch.setenv("QUANTVIZ_HUBS", hub.origin)
        yield hub


@pytest.mark.parametrize(
    ("page", "pasted", "file", "weights"),
    [
        (MODEL, "{repo}", "model.safetensors.index.json", {"a.weight", "b.weight"}),
        ("pages/home/home.py", "{repo}", "model.safetensors.index.json", {"a.weight", "b.weight"}),
        (LAYERS, "{hub}/{repo}/blob/main/sub/net 1.safetensors", "sub/net%201.safetensors", set(WEIGHTS)),
        (LESSONS, "{hub}/{repo}/resolve/main/sub/net.gguf", "sub/net.gguf", set(WEIGHTS)),
    ],
    ids=["repository", "front door", "file", "gguf"],
)
def test_a_published_model_is_scanned_and_its_worst_weight_opens_in_the_lab(
    hub, asked, page, pasted, file, weights
):
    at = opened(page, lang="en")
    field = "drop_address" if page == MODEL else "drop_anywhere_address"
    choose(at, (field, pasted.format(hub=hub.origin, repo=REPO)))
    chosen = f"{hub.origin}/{REPO}/resolve/{COMMIT}/{file}"
    assert address(healthy(at))["f"] == chosen
    (path, recipes, *_), *_ = asked
    assert path == chosen
    table = qv.scan(path, recipes)
    assert set(table.tensor) == weights
    # Whoever has the link sees the scan.
    at = opened(MODEL, f=chosen, lang="en")
    assert "The worst under int4 row" in " ".join(each.proto.body for each in healthy(at).get("html"))
    assert words_of(at, "checkpoints_chosen")[0].startswith(f"{REPO} · ")
    at.button(key="checkpoints_worst_1").click().run()
    source = lab_state(at).source
    assert (source.original.repo, source.original.revision) == (REPO, COMMIT)


def test_a_published_file_of_one_weight_goes_to_the_lab_and_a_large_model_waits_for_the_press(
    hub, asked, monkeypatch
):
    at = opened(MODEL, lang="en")
    choose(at, ("drop_address", f"{hub.origin}/{REPO}/blob/main/{SHARD.format(1)}"))
    assert lab_state(at).source.original.name == "a.weight"
    monkeypatch.setattr("quantviz.ui.drop.taking.DROPPED_BYTES", 100)
    at = opened(MODEL, lang="en")
    choose(at, ("drop_address", REPO))
    assert address(healthy(at))["f"].endswith("/model.safetensors.index.json")
    assert not asked
    assert not at.button(key="checkpoints_scan").disabled


def test_a_link_leads_to_no_host_that_is_not_listed(hub, asked):
    for chosen in (f"https://127.0.0.1:1/{REPO}/resolve/{COMMIT}/x.gguf", f"{hub.origin}/{REPO}"):
        at = arrived(MODEL, f=chosen, lang="en")
        assert not at.exception
        assert at.error
    assert not asked


def test_what_another_message_interrupts_is_opened_in_the_next_run(monkeypatch):
    found = []

    def interrupted(address):
        found.append(address)
        if len(found) == 1:
            st.rerun()

    monkeypatch.setattr(taking, "take_brought", interrupted)
    at = opened(LESSONS)
    at.session_state[BROUGHT] = "org/model"
    for _ in range(2):
        healthy(at.run())
    assert found == ["org/model"] * 2
