"""The page of checkpoints through AppTest: what it says is what was measured, and no more is shown."""

import contextlib
import dataclasses
import html
import json
import math
import os
import re
import sqlite3
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import streamlit as st
import torch
from safetensors.torch import save_file

import quantviz as qv
from quantviz.checkpoints.example import EXAMPLE, example_file, example_tensors
from quantviz.checkpoints.offered import as_link, from_link
from quantviz.checkpoints.profiles import PROFILES
from quantviz.checkpoints.results.store import Results, default_results
from quantviz.checkpoints.scan.scanning import run_scan
from quantviz.checkpoints.scan.selection import Selection
from quantviz.jobs import Jobs
from quantviz.lab.state import LabState
from quantviz.sources import LocalTensor, parse_source, write_source
from quantviz.sources.files import open_tensors
from quantviz.text import text
from quantviz.ui.checkpoints import choices, importance, page, reading
from quantviz.ui.checkpoints.answer import python_call
from quantviz.ui.checkpoints.page import audits
from quantviz.ui.checkpoints.state import USUAL, CheckpointsState
from quantviz.ui.lab.from_map import source_of
from quantviz.ui.shell.bounds import UPLOADED_IMATRICES
from quantviz.whole_files import own_folder
from tests.helpers import session
from tests.helpers.controls import choose, controls, value_of, words_of
from tests.helpers.importance_file import write_dat
from tests.helpers.session import act, address, bodies, healthy, keys_of, spec, told

PAGE = "pages/explore/checkpoints.py"
RECIPES = ("int4_g128", "int8_per_row")
VLLM = ("w4a16_g128", "w8a16_g128")
HOSTILE = "model.layers.1.[x](javascript:alert(1))<b>.weight"
FILE = "m/model.safetensors"
FRESH = "z/fresh.safetensors"
#: One that is scanned for no engine, under recipes of one.
OWN = "z/own.safetensors"


@pytest.fixture(scope="module")
def scanned(tmp_path_factory):
    """A folder with a checkpoint, its scan in the server's results, and another one of a file elsewhere."""
    base = tmp_path_factory.mktemp("checkpoints")
    folder, cache, elsewhere = base / "data", base / "cache", base / "secret.safetensors"
    (folder / "m").mkdir(parents=True)
    x = torch.randn(8, 128, generator=torch.Generator().manual_seed(0))
    loud = x.clone()
    loud[:, 3] *= 50
    tensors = {f"model.layers.{n}.up.weight": x + n for n in range(2)}
    tensors |= {"model.layers.0.down.weight": loud, HOSTILE: x * 2, "norm.weight": x[0].clone()}
    save_file(tensors, folder / FILE)
    save_file({"secret": x}, elsewhere)
    (folder / "z").mkdir()
    save_file({"lm_head.weight": x, "model.layers.0.up.weight": x + 1}, folder / FRESH)
    save_file({"model.layers.0.up.weight": x}, folder / OWN)
    write_dat(folder / "m/imatrix.dat", {"model.layers.0.up.weight": np.ones(128, np.float32)})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("QUANTVIZ_DATA_DIR", str(folder))
        patch.setenv("QUANTVIZ_CACHE_DIR", str(cache))
        with Results() as results:
            run_scan(results, folder / FILE, VLLM, selection=Selection("vllm"))
            # By its folder and from another one, as the command may: the page offers the file.
            patch.chdir(folder)
            run_scan(results, Path(FILE).parent, RECIPES)
            patch.chdir(base)
            run_scan(results, elsewhere, RECIPES)
        (folder / "old.sqlite").write_bytes((cache / "scans" / "results.sqlite").read_bytes())
        with Results() as results:
            run_scan(results, folder / OWN, VLLM)
        yield folder


def opened(**params):
    return session.opened(PAGE, **{"lang": "en", **params})


def sentence(at):
    return bodies(at, "qv-finding")[0]


def the_map(at):
    return spec(at, "checkpoints_map_a")


def said_of_squares(at, chart="checkpoints_map_a"):
    """What is said of each square of a map."""
    traces = spec(at, chart)["data"]
    return [said for trace in traces if trace["type"] == "scatter" for said in trace["hovertext"]]


@pytest.fixture
def asked(monkeypatch):
    """The recipes, engine and matrix of each scan that was asked for: none begins."""
    scans = []
    monkeypatch.setattr(Jobs, "prepare", lambda self: None)
    monkeypatch.setattr(choices, "start_scan", lambda path, recipes, *more: scans.append((recipes, *more)))
    return scans


def edit(path, *statements):
    """Change a file of results by hand."""
    with contextlib.closing(sqlite3.connect(path)) as opened_file, opened_file:
        for each in statements:
            opened_file.execute(*each) if isinstance(each, tuple) else opened_file.execute(each)


def worst(at):
    """The labels of the worst tensors."""
    labels = [each.label for each in at.button if str(each.key).startswith("checkpoints_worst_")]
    return [label.replace("\\", "").replace("\u2060", "") for label in labels]


def crumbs(at):
    return bodies(at, "qv-crumbs")[0]


def test_what_is_scanned_is_what_stands_beside_the_button(scanned, asked):
    """An address may name no recipe: those of the last scan are chosen, and a press on the button begins with
    them.
    """
    at = opened(f=as_link(FILE)).run()
    at.query_params.clear()
    at.query_params["f"] = as_link(FILE)
    act(at, "checkpoints_scan")
    assert asked == [(RECIPES, "", "", None)]
    # An engine brings its own recipes, and its name to the scan and the address.
    act(at, checkpoints_engine="vllm")
    own = tuple(value_of(at, "checkpoints_recipes").split())
    assert own == PROFILES["vllm"].first_recipes
    assert address(at)["e"] == "vllm"
    # Until then the last scan is shown, and said to be another one.
    assert "of other choices: int4 g128, int8 row" in told(at, "caption")
    act(at, "checkpoints_scan")
    assert asked[1:] == [(own, "vllm", "", None)]
    # Of recipes that use importance a matrix can be chosen, and comes in the address too.
    assert "checkpoints_imatrix" not in keys_of(at)
    act(at, "checkpoints_scan", checkpoints_engine="llama_cpp", checkpoints_imatrix="m/imatrix.dat")
    assert asked[2][1:3] == ("llama_cpp", str(scanned / "m/imatrix.dat"))
    choose(at, ("checkpoints_recipes", ["q4_0"]))
    act(healthy(at), "checkpoints_scan")
    assert asked[3][0] == ("q4_0",)
    assert address(at)["i"] == "m/imatrix.dat"


def test_an_importance_matrix_that_is_uploaded_stays_for_its_scan_and_one_that_is_gone_is_told(scanned):
    matrix = (scanned / "m/imatrix.dat").read_bytes()
    state = CheckpointsState(FILE, recipes=("q4_k",), imatrix=f"upload:{importance.keep('mine.dat', matrix)}")
    assert Path(importance.imatrix_path(state)).read_bytes() == matrix
    # No recipe here uses it.
    assert importance.imatrix_path(dataclasses.replace(state, recipes=RECIPES)) == ""
    # The last few stay, and nothing of what cannot be read.
    for number in range(UPLOADED_IMATRICES):
        importance.keep("mine.dat", matrix[:-4] + number.to_bytes(4, "little"))
    # One that another session moves to its place meanwhile is not there when it is looked at.
    moving = own_folder("imatrix") / "moving"
    moving.symlink_to("nowhere")
    importance.keep("mine.dat", matrix[:-4] + bytes([9, 0, 0, 0]))
    moving.unlink()
    importance.keep("mine.dat", matrix[:-4] + bytes(4))
    with pytest.raises(qv.QuantVizError, match="no importance matrix"):
        importance.keep("mine.dat", b"none")
    assert len(list(own_folder("imatrix").iterdir())) == UPLOADED_IMATRICES
    at = opened(f=as_link(FILE), r="q4_k", i=state.imatrix)
    assert "no longer on this server" in at.warning[0].value
    assert value_of(at, "checkpoints_imatrix") == ""
    # What lies elsewhere is no file of the folder.
    assert not opened(f=as_link(FILE), r="q4_k", i="../secret.safetensors").exception


def test_numbers_measured_with_an_upload_are_shown_to_whoever_has_it(scanned, monkeypatch):
    matrix = (scanned / "m/imatrix.dat").read_bytes()
    mine = CheckpointsState(FILE, recipes=("q4_k",), imatrix=f"upload:{importance.keep('mine.dat', matrix)}")
    scan = reading.scans_of(FILE)[0]
    uploaded = Selection(imatrix=str(own_folder("imatrix") / mine.imatrix.removeprefix("upload:")))
    own = dataclasses.replace(scan, recipes=(("q4_k", qv.RECIPES["q4_k"]),), selection=uploaded)
    assert importance.upload_of(own) == mine.imatrix
    monkeypatch.setattr(reading, "scans_of", lambda chosen: (own, scan))
    results = contextlib.nullcontext(SimpleNamespace(scans=lambda: (own, scan)))
    monkeypatch.setattr(reading, "_results_of", lambda chosen: results)
    assert reading.find_scan(mine) is own
    assert reading.find_scan(dataclasses.replace(mine, imatrix="")) is scan
    assert reading.others()[FILE] is scan


def test_what_an_engine_would_leave_aside_is_seen_before_a_scan(scanned):
    at = opened(f=as_link(FRESH), e="vllm")
    assert sorted("lm_head" in each for each in said_of_squares(at)) == [False, True]
    assert "= left aside, as stored: 1 matrix" in bodies(at, "qv-legend")[0]


def test_the_first_line_names_the_worst_and_what_helps(scanned):
    at = opened()
    assert address(at)["f"] == FILE
    assert value_of(at, "checkpoints_recipes").split() == list(RECIPES)
    assert "First fix: int8 row" in sentence(at)
    assert worst(at)[0].startswith("**1 · layers.0.down · ")
    assert any("layers.1.[x](javascript:alert(1))<b>" in each for each in worst(at))
    assert not any("](javascript" in each.label for each in at.button)  # no link of Markdown
    squares = said_of_squares(at)
    assert len(squares) == 4
    # Their squares are outlined, by a dark line on a light one, and numbered.
    layout = the_map(at)["layout"]
    assert len(layout["shapes"]) == 6
    assert [each["text"] for each in layout["annotations"]] == ["1", "2", "3"]
    assert not any("<b>.weight" in each for each in squares)
    # The table, once it is opened, begins with the worst; a tensor without a number, which lies first in the
    # file, is last.
    assert not at.dataframe
    at.session_state["checkpoints_details"] = True
    at.run()
    table = next(each.value for each in at.dataframe if "sqnr_db" in each.value.columns)
    ranked = table["sqnr_db"].tolist()
    assert table["tensor"].iloc[0] == "layers.0.down"
    assert [math.isnan(each) for each in ranked] == [False] * 4 + [True]
    assert ranked[:4] == sorted(ranked[:4])


def test_the_worst_lead_to_the_lab_under_their_names_and_there_to_the_next(scanned):
    at = act(opened(f=FILE), "checkpoints_worst_1")
    healthy(at.switch_page(session.LAB).run())
    first = "<b>model.layers.0.down.weight</b>"
    assert first in crumbs(at)
    assert at.button(key="walk_worse").disabled
    assert "worst 1 of 4" in bodies(at, "qv-worst")[0]
    second = at.button(key="walk_next").proto.help.replace("\\", "").replace("\u2060", "")
    act(at, "walk_next")
    [name] = re.findall("<b>(.*?)</b>", crumbs(at))
    assert html.unescape(name)[1:] in second
    assert first not in crumbs(at)
    assert "worst 2 of 4" in bodies(at, "qv-worst")[0]
    # An undo goes back to the tensor before, with its name and its place.
    assert first in crumbs(act(at, "undo"))
    assert at.button(key="walk_worse").disabled


def test_a_scan_that_runs_has_no_verdict_and_its_map_is_drawn_where_it_stays(scanned, tmp_path, monkeypatch):
    kept = tmp_path / "scans" / "results.sqlite"
    kept.parent.mkdir()
    kept.write_bytes(default_results().read_bytes())
    monkeypatch.setenv("QUANTVIZ_CACHE_DIR", str(tmp_path))
    maps = {}
    for state in ("running", "done"):
        edit(kept, ("UPDATE scans SET state = ?, process = ?", (state, os.getpid())))
        at = opened(f=FILE)
        is_done = state == "done"
        assert bool(worst(at)) == is_done
        assert ("once all are measured" in told(at, "caption")) != is_done
        assert ("checkpoints_allocate" in keys_of(at)) == is_done
        maps[state] = the_map(at)["layout"]
    assert not maps["running"]["shapes"]
    for name in ("height", "margin", "xaxis", "yaxis"):
        assert maps["running"][name] == maps["done"][name]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_choice_of_the_address_opens(scanned, language):
    link = {"s": "int8_per_row", "m": "winner", "b": ".", "q": "int4_g128", "w": "difference", "f": FILE}
    at = opened(lang=language, **link)
    assert {**address(at), "lang": language} == {**link, "r": "~".join(RECIPES), "lang": language}
    assert session.chart(at, "checkpoints_map_d")
    act(at, checkpoints_view="side")
    assert session.chart(healthy(at), "checkpoints_map_a")
    assert session.chart(at, "checkpoints_map_b")


def test_what_the_address_asks_for_in_vain_is_named(scanned):
    said = told(opened(f=FILE, m="nonsense", s="int99"), "warning")
    assert "nonsense" in said
    assert "int99" in said
    # An error is expected, which `opened` takes for a failure.
    at = session.arrived(PAGE, f="../secret.safetensors")
    assert "secret" in at.error[0].value
    # In place of a button that cannot be pressed there is one that opens another checkpoint.
    assert "checkpoints_scan" not in keys_of(at)
    assert address(healthy(act(at, "checkpoints_instead")))["f"] == FILE
    assert not at.button(key="checkpoints_scan").disabled


def test_scans_of_other_files_of_this_machine_are_not_shown(scanned):
    at = opened(f=FILE)
    options = [words for field in controls(at) for words in words_of(at, field)]
    assert all(each.startswith("old.sqlite") for each in options if "secret" in each)


def test_of_a_damaged_file_of_results_the_rest_is_shown_and_what_is_not_is_told(scanned):
    damaged = scanned / "damaged.sqlite"
    damaged.write_bytes((scanned / "old.sqlite").read_bytes())
    edit(
        damaged,
        "UPDATE scans SET process = NULL WHERE path LIKE '%secret%'",
        "UPDATE tensors SET shape = '{' WHERE tensor = 'norm.weight'",
    )
    st.cache_data.clear()  # what lies in the folder
    at = opened(f="damaged.sqlite", n="2")
    assert "First fix: int8 row" in sentence(at)
    assert "process must be a number" in told(at, "warning")
    at.session_state["checkpoints_details"] = True
    at.run()
    table = next(each.value for each in at.dataframe if "reason" in each.value.columns)
    [reason] = table[table.tensor == "norm"].reason
    assert "shape must be JSON" in reason
    assert not list(scanned.glob("*-wal")) + list(scanned.glob("*-shm"))
    edit(damaged, "DROP TABLE tensors", "CREATE VIEW tensors AS SELECT zeroblob(1000000000) AS tensor")
    at.run()  # the page that was open when its file was replaced
    assert not at.exception
    assert ["no results file of this version" in each.value for each in at.error] == [True]
    damaged.unlink()


def test_the_call_that_the_page_shows_gives_the_number_it_says(scanned, monkeypatch, capsys):
    state = CheckpointsState(FILE, recipes=RECIPES)
    scan = reading.find_scan(state)
    call = python_call(state, scan, reading.look(FILE, scan).model, "int4_g128")
    monkeypatch.chdir(scanned / "m")
    exec(call, {})
    assert capsys.readouterr().out.strip() == call.partition("  # ")[2].splitlines()[0]


def test_without_a_folder_there_is_an_example_whose_tensors_the_lab_opens(scanned, asked, monkeypatch):
    monkeypatch.delenv("QUANTVIZ_DATA_DIR")
    at = opened()
    assert address(at)["f"] == EXAMPLE
    assert at.button(key="checkpoints_scan").proto.type == "primary"
    # Its code is coloured once it is opened.
    assert not at.code
    at.session_state["checkpoints_folder"] = True
    assert "QUANTVIZ_DATA_DIR" in healthy(at.run()).code[0].value
    # A server, which has sessions, scans it at the first visit; what was scanned is not scanned again.
    monkeypatch.setattr(page, "has_sessions", lambda: True)
    opened(r="int8_per_row")
    monkeypatch.setenv("QUANTVIZ_DATA_DIR", str(scanned))
    opened(f=FILE)
    assert asked == [(USUAL,)]
    with open_tensors(example_file()) as catalog:
        for name, source in example_tensors().items():
            assert parse_source(write_source(source)) == source
            assert catalog.info(name).shape == source.shape
        name = "model.layers.6.mlp.experts.1.down_proj.weight"
        assert torch.equal(catalog.load(name), example_tensors()[name].tensor())


def test_a_square_leads_to_its_tensor_in_the_lab_by_a_link_that_a_cold_server_opens(scanned):
    name = "model.layers.0.down.weight"
    source = source_of(FILE, name, str(scanned.resolve() / FILE))
    assert source == LocalTensor(FILE, name, (8, 128))
    scheme = "int8,symmetric,per_channel(axis=0),min_max,course"
    state, problems = LabState.read({"v": "1", "t": source.link_text(), "s": scheme})
    assert (state.source, problems) == (source, ())


def test_files_of_a_scan_that_was_begun_elsewhere_are_whole_paths(scanned):
    """Else the page could not open them: its working folder is another one."""
    with Results(read_only=True) as results:
        files = {row.file for scan in results.scans() for row in results.rows(scan.id)}
    assert all(map(os.path.isabs, files))


def test_a_file_whose_name_is_no_text_opens_by_its_link(scanned):
    strange = "\udcff.safetensors"
    (scanned / strange).write_bytes((scanned / FILE).read_bytes())
    with Results() as results:
        run_scan(results, scanned / strange, RECIPES)
    st.cache_data.clear()  # what lies in the folder
    at = opened(f=as_link(strange))
    assert "layers.0.down" in worst(at)[0]
    assert from_link(address(at)["f"]) == strange


def spent(at):
    """What is said of an allocation."""
    return html.unescape(bodies(at, "smallest weight error")[0])


def test_a_budget_is_spent_and_told(scanned):
    at = opened(f=FILE, a="6")
    said = spent(at)
    assert "Next to change" in said
    assert address(at)["a"] == "6"
    assert session.chart(at, "checkpoints_choice")
    assert "JSON" in [each.label for each in at.get("download_button")]


def test_a_budget_for_an_engine_counts_the_files_of_its_tool_as_the_command_does(scanned):
    at = opened(f=as_link(FILE), e="vllm", r="~".join(VLLM), a="7")
    budget = value_of(at, "checkpoints_budget")
    with Results() as results:
        number = next(scan.id for scan in results.scans() if scan.selection.engine == "vllm")
        found = results.table(number)
    kept = [name for name in dict.fromkeys(found["tensor"]) if name == "norm.weight"]
    asked = {"bits_per_weight": budget, "excluded": kept, "fused": "engine"}
    written = qv.allocate(found, files_of="vllm", **asked)
    own = qv.allocate(found, **asked)
    whole, without = ((each.bits + each.choices.kept_bits) / 8e6 for each in (written, own))
    assert f"{whole:,.4g} MB" in spent(at)
    assert f"{whole:,.4g}" != f"{without:,.4g}"
    assert "the whole file as vllm writes it" in spent(at)
    # vLLM joins q, k and v: there is no choice.
    assert value_of(at, "checkpoints_fused")
    assert controls(at)["checkpoints_fused"]["disabled"]


def test_a_size_says_what_it_is_of_and_leads_to_that_of_a_tool(scanned, asked):
    """Without an engine it is the recipes' own; an engine that has them all is one press away."""
    at = opened(f=as_link(OWN), a="6")
    assert "codes and scales: no tool's file" in spent(at)
    assert keys_of(at, "checkpoints_scan_for_") == ["checkpoints_scan_for_vllm"]
    assert address(act(at, "checkpoints_scan_for_vllm"))["e"] == "vllm"
    assert asked == [(VLLM, "vllm", "", None)]


def pinned_table(at):
    """What the table of pins shows: by tensor the recipe that it is pinned to."""
    frame = next(each.value for each in at.dataframe if list(each.value.columns) == ["tensor", "recipe"])
    return frame.set_index("tensor")["recipe"].to_dict()


def test_an_allocation_keeps_to_the_pins_of_its_address(scanned):
    loud = "model.layers.0.down.weight"
    pins = f"{loud}!int4_g128~model.layers.0.up.weight!stored"
    free, kept = opened(f=FILE, a="6"), opened(f=FILE, a="6", p=pins, u="1")
    assert address(kept)["p"] == pins
    assert value_of(kept, "checkpoints_fused")
    assert pinned_table(kept)["layers.0.down"] == "int4 g128"
    assert pinned_table(kept)["layers.0.up"] == "as stored"
    assert set(pinned_table(free).values()) == {"by budget"}
    chosen = {at: said_of_squares(at, "checkpoints_choice") for at in (free, kept)}
    for at, recipe in ((free, "int8 row"), (kept, "int4 g128")):
        assert any("layers.0.down" in each and recipe in each for each in chosen[at])
    assert any("layers.0.up" in each and "stays as it is stored" in each for each in chosen[kept])
    assert "as stored" in bodies(kept, "qv-small qv-legend")[-1]
    assert not any("open in the Lab" in each for each in chosen[kept])  # nothing happens there
    assert "int99" in told(opened(f=FILE, p=f"{loud}!int99"), "warning")


# ---- the audit ------------------------------------------------------------------------------------

PAIR = {"f": "quantized/model.safetensors", "o": "original/model.safetensors"}


@pytest.fixture
def audited(tmp_path, monkeypatch):
    """The paths of a quantized checkpoint of which one weight cannot be read, and of its original."""
    monkeypatch.setenv("QUANTVIZ_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("QUANTVIZ_CACHE_DIR", str(tmp_path.parent / "cache"))
    x = torch.randn(8, 64, generator=torch.Generator().manual_seed(0))
    original = {f"model.layers.{k}.up.weight": x + k for k in range(3)}
    made = {}
    for name, weight in original.items():
        scale = weight.abs().amax(1, keepdim=True) / 127
        made |= {name: torch.round(weight / scale).to(torch.int8), f"{name}_scale": scale}
    lost = "model.layers.1.up.weight"
    del made[f"{lost}_scale"]
    made |= {lost: torch.randint(0, 2**31 - 1, (8, 8), dtype=torch.int32), f"{lost}_codebook": torch.ones(4)}
    for name, tensors in (("quantized", made), ("original", original)):
        (tmp_path / name).mkdir()
        save_file(tensors, tmp_path / name / "model.safetensors")
    return [tmp_path / name / "model.safetensors" for name in ("quantized", "original")]


def compared(at, paths):
    """The page once it has compared two checkpoints."""
    at.button(key="checkpoints_audit_begin").click().run()
    assert audits()[tuple(map(str, paths))].wait(120)
    return at.run()


@pytest.mark.nightly
@pytest.mark.parametrize("language", ["en", "zh"])
def test_two_files_have_one_verdict_and_a_map_of_what_was_not_read(audited, language):
    at = healthy(compared(opened(**PAIR, lang=language).run(), audited))
    verdict = qv.audit(*audited).messages(language)[0]
    beginning = {"en": "1 of 3 weights were not compared", "zh": "3 个权重中有 1 个未比较"}[language]
    assert verdict.startswith(beginning)
    assert beginning in told(at, "warning")
    said = said_of_squares(at, "checkpoints_audit_map")
    assert len(said) == 3
    assert sum(text("checkpoints.audit.became.not_read", language) in words for words in said) == 1
    assert address(at)["o"] == PAIR["o"]


def _with_other_sqnr(numbers):
    record = json.loads(numbers)
    return json.dumps(record | {"metrics": record["metrics"] | {"sqnr_db": 12.5}})


def test_a_running_audit_is_looked_at_again_and_again_can_be_cancelled_and_goes_on(audited, monkeypatch):
    """In its place stands a job that has done two of five tensors and waits."""
    looks, made = [], page.fragment

    def noting(part, every):
        looks.append(every)
        return made(part, every)

    monkeypatch.setattr(page, "fragment", noting)
    at = opened(**PAIR).run()
    assert looks[-1] is None

    usual = Jobs._answer

    def held(runner, job):
        if job.cost.confined:
            return usual(runner, job)
        job.done, job.whole = 2, 5
        while not job.dropped:
            time.sleep(0.01)
        return "lost", None

    with monkeypatch.context() as patch:
        patch.setattr(Jobs, "_answer", held)
        at.button(key="checkpoints_audit_begin").click().run()
    job = audits()[tuple(map(str, audited))]
    at.run()
    assert healthy(at)
    assert looks[-1] == page._BETWEEN_LOOKS
    assert text("checkpoints.progress", "en", done=2, all=5) in at.get("progress")[0].proto.text
    assert at.button(key="checkpoints_audit_begin").disabled
    at.button(key="checkpoints_audit_cancel").click().run()
    assert job.wait(60)
    at.run()
    assert any("cancelled" in each.value for each in at.caption)
    assert not at.error
    assert looks[-1] is None
    # It goes on from what is kept, which is the command's as well: here numbers that were changed by hand, so
    # that they show where they come from.
    assert at.button(key="checkpoints_audit_begin").label == text("checkpoints.resume", "en")
    qv.audit(*audited, results=default_results())
    with contextlib.closing(sqlite3.connect(default_results())) as kept, kept:
        # SQLite's own functions take no NaN.
        kept.create_function("by_hand", 1, _with_other_sqnr)
        kept.execute("UPDATE measured SET numbers = by_hand(numbers) WHERE scheme = 'compared'")
    assert any("not compared" in each.value for each in compared(at, audited).warning)
    shown = audits()[tuple(map(str, audited))].found.rows["en"]
    assert sorted(row["sqnr_db"] == 12.5 for row in shown) == [False, True, True]
    assert at.button(key="checkpoints_audit_begin").label == text("checkpoints.audit.again", "en")


def test_an_audit_that_cannot_begin_says_why(audited):
    save_file({"other": torch.ones(3)}, audited[1])
    at = compared(opened(**PAIR).run(), audited)
    assert any("has a partner in the original" in each.value for each in at.error)
    assert not at.exception
