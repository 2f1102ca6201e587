"""A look at a results file leaves nothing beside it, and sees what was written, whoever writes meanwhile."""

import shutil

import pytest

import quantviz as qv
from quantviz.checkpoints.results.result_file import ResultFile
from quantviz.checkpoints.results.store import Results
from tests.fuzz.results_files import NAMES, RECIPES, write_results

PLAN = [("int8_per_row", qv.RECIPES["int8_per_row"])]


def files(folder):
    return {path.name: path.stat().st_size for path in folder.iterdir()}


def test_a_file_at_rest_is_read_in_a_folder_that_nothing_is_written_to(tmp_path):
    path = write_results(tmp_path / "r.sqlite")
    assert list(files(tmp_path)) == ["r.sqlite"]
    with Results(path, read_only=True) as results:
        assert len(results.scans()) == 2
        assert list(files(tmp_path)) == ["r.sqlite"]
        with pytest.raises(qv.QuantVizError, match="readonly"):
            results.end(1, "cancelled")
    assert list(files(tmp_path)) == ["r.sqlite"]


def test_a_look_that_began_before_a_scan_sees_the_scan(tmp_path):
    path = write_results(tmp_path / "r.sqlite")
    with Results(path, read_only=True) as looking:
        assert len(looking.scans()) == 2
        with Results(path) as writing:
            number = writing.begin("/models/c", PLAN, [])
            assert looking.scans()[0].id == number
        assert len(looking.scans()) == 3
        assert len(list(looking.rows(1))) == 6


@pytest.mark.parametrize("index", [True, False], ids=["with its index", "log alone"])
def test_what_stands_in_the_log_of_a_killed_scan_is_seen_and_stays_there(tmp_path, index):
    path = write_results(tmp_path / "r.sqlite")
    copy = tmp_path / "copied"
    copy.mkdir()
    with Results(path) as writing:
        writing.begin("/models/c", PLAN, [])
        for name in files(tmp_path):
            if name.startswith("r.sqlite") and (index or not name.endswith("-shm")):
                shutil.copyfile(tmp_path / name, copy / name)
    before = files(copy)
    assert ("r.sqlite-shm" in before, before["r.sqlite-wal"] > 0) == (index, True)
    with Results(copy / "r.sqlite", read_only=True) as looking:
        assert looking.scans()[0].path == "/models/c"
        assert {row.tensor for row in looking.rows(1)} == set(NAMES[:3])
        assert {row.recipe for row in looking.rows(1)} == set(RECIPES)
    assert files(copy) == before


def test_what_was_read_while_the_file_was_replaced_is_read_again(tmp_path, monkeypatch):
    path, other = write_results(tmp_path / "r.sqlite"), tmp_path / "other.sqlite"
    with Results(other) as results:
        results.begin("/models/c", PLAN, [])
    with Results(path, read_only=True) as looking:
        fetch, times = looking._file._fetch, []

        def replaced(*arguments):
            found = fetch(*arguments)
            if not times:
                shutil.copyfile(other, path)
            times.append(1)
            return found

        monkeypatch.setattr(looking._file, "_fetch", replaced)
        assert [scan.path for scan in looking.scans()] == ["/models/c"]

        def always(*arguments):
            shutil.copyfile(other, path)
            return fetch(*arguments)

        monkeypatch.setattr(looking._file, "_fetch", always)
        with pytest.raises(qv.QuantVizError, match="again and again"):
            looking.scans()


def test_whoever_looks_while_the_first_scan_begins_finds_no_file_or_one_that_can_be_read(
    tmp_path, monkeypatch
):
    path, found = tmp_path / "r.sqlite", []
    usual = ResultFile._check_tables

    def looked_at(self):
        if not self._read_only:
            with Results(path, read_only=True) as looking:
                found.append(looking.scans())
        usual(self)

    monkeypatch.setattr(ResultFile, "_check_tables", looked_at)
    Results(path).close()
    assert found == [()]
    assert list(files(tmp_path)) == ["r.sqlite"]


def test_without_hard_links_a_new_file_is_filled_where_it_lies(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError("no links here")

    monkeypatch.setattr("os.link", refuse)
    write_results(tmp_path / "r.sqlite")
    with Results(tmp_path / "r.sqlite", read_only=True) as looking:
        assert len(looking.scans()) == 2
    assert list(files(tmp_path)) == ["r.sqlite"]
