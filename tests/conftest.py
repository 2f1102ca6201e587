"""For all tests.

Hypothesis tries the same examples in every run, so that a change passes or fails by what it changes. To look
for more: `--hypothesis-profile random`, as often as one likes.

Walks take a fixed sample of all combinations (`tests/helpers/sample.py`), and tests marked `nightly` are left
out: they walk again, by touch, on a phone or after a restart, where others have walked, or start whole
processes. `-m all` runs every test in every combination.

Compiled kernels are kept for a run alone, in one folder for all its processes; where `QUANTVIZ_CACHE_DIR` is
set, from run to run.
"""

import compileall
import gc
import os
import shutil
import sys
import tempfile
from functools import cache
from pathlib import Path

import pytest
from _pytest.assertion import rewrite
from _pytest.doctest import DoctestModule
from hypothesis import HealthCheck, settings

pytest.register_assert_rewrite("tests.helpers")
from tests.helpers.kernels import KERNELS, compiled_for_the_run, start_compiling  # noqa: E402
from tests.helpers.sample import ALL  # noqa: E402

#: A busy machine is slow, which says nothing of a test.
UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", UNTIMED, derandomize=True)
settings.register_profile("random", UNTIMED, derandomize=False)
settings.load_profile("same")

#: Some machines forbid Python to keep what it has compiled: then each worker, server and child of a run would
#: compile the whole package for itself, which takes longer than most tests.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

#: Objects after which garbage is looked for: compiling and drawing leave hardly any, and the looks took a
#: fifth of a run.
OBJECTS_BETWEEN_LOOKS = 100_000

#: What has no tests in it: pytest would import all of it, the engines among it, to look for examples in
#: docstrings.
collect_ignore_glob = ["bench/*", "engines/*", "fuzz/__main__.py", "helpers/*"]

#: Left out by `-m quick`: what needs a browser, an engine, the whole app, another process or kernels compiled
#: anew, what draws, and long walks. Of the others it leaves out what is marked `slow`. What is left is the
#: arithmetic, the formats, the sources, links and words.
NOT_QUICK = (
    "analysis",
    "app",
    "browser",
    "checkpoints",
    "cli",
    "compiled",
    "evaluation/test_metric_formulas.py",
    "export/test_files.py",
    "figures",
    "fuzz",
    "lab/test_moves.py",
    "quantization/test_computed_ranges.py",
    "quantization/test_range_search.py",
    "quantization/test_scale_search.py",
    "rooms/test_stores.py",
    "schemes/test_axis_names.py",
    "schemes/test_calibration.py",
    "sources/test_files.py",
    "sources/test_hostile.py",
    "sources/test_image.py",
    "sources/test_random.py",
    "streaming",
    "teaching/lessons/test_lessons.py",
    "teaching/test_golf.py",
    "test_allocation_exports.py",
    "test_calibration_packages.py",
    "test_counts.py",
    "test_engine_faults.py",
    "test_engines.py",
    "test_imports.py",
    "test_jupyter.py",
    "test_misuse.py",
    "test_packaging.py",
    "test_process_state.py",
    "test_walk.py",
    "test_jobs.py",
    "ui/test_cell.py",
    "ui/test_connections.py",
    "ui/test_lesson_steps.py",
    "ui/test_stage_tabs.py",
    "ui/test_streamlit_private.py",
)


#: What begins a run.
FIRST = ("browser",)
#: What imports engines, for most of a minute: one process of a run has it all.
OF_ENGINES = (
    "test_allocation_exports.py",
    "test_calibration_packages.py",
    "test_engine_faults.py",
    "test_engines.py",
    "test_integer_engines.py",
)
#: What asks for kernels that are the same for all schemes: tests of these wait until they are compiled.
OF_LARGE_TENSORS = (
    "analysis",
    "app",
    "browser",
    "checkpoints",
    "compiled",
    "quantization/test_computed_ranges.py",
    "quantization/test_range_search.py",
    "quantization/test_scale_search.py",
    "streaming",
    "ui/test_stage_tabs.py",
)


def pytest_xdist_auto_num_workers():
    """One process more than there are cores: tests in a browser wait more than they compute."""
    return (os.cpu_count() or 1) + 1


def pytest_configure(config):
    """One thread a process: small tensors are no faster on more, and tests that run side by side do not wait
    for each other.
    """
    if config.option.markexpr == "all":
        os.environ[ALL] = "1"
    config.pluginmanager.register(ModulesWithExamples())
    has_workers = config.getoption("dist", "no") != "no"
    if not has_workers:
        import torch  # which a process that only hands out tests would wait for

        torch.set_num_threads(1)
    if has_workers:
        compileall.compile_dir(Path(__file__).parents[1] / "quantviz", quiet=2)
    gc.set_threshold(OBJECTS_BETWEEN_LOOKS)
    if KERNELS not in os.environ:
        os.environ[KERNELS] = made = tempfile.mkdtemp(prefix="quantviz_kernels_")
        config.add_cleanup(lambda: (shutil.rmtree(made, ignore_errors=True), os.environ.pop(KERNELS)))
        if has_workers and config.option.markexpr != "quick":
            compiling = start_compiling(Path(made))
            config.add_cleanup(lambda: (compiling.terminate(), compiling.wait()))
    if has_workers:
        rewrite_tests(config)


class ModulesWithExamples:
    """Has examples looked for only where there are some: to look through all modules, imported for it, took a
    fifth of the collection, which each worker makes. A hook of this file alone would hold in `tests/` only.
    """

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(self, file_path):
        found = yield
        if any(isinstance(each, DoctestModule) for each in found) and b">>> " not in file_path.read_bytes():
            return [each for each in found if not isinstance(each, DoctestModule)]
        return found


def rewrite_tests(config):
    """Rewrite the assertions of all tests and helpers once: each worker of a fresh clone would do so for
    itself, at the same time.
    """
    for path in Path(__file__).parent.rglob("*.py"):
        if not (path.name.startswith("test_") or path.name == "conftest.py" or "helpers" in path.parts):
            continue
        folder = rewrite.get_cache_dir(path)
        kept = folder / f"{path.stem}{rewrite.PYC_TAIL}"
        if rewrite.try_makedirs(folder) and rewrite._read_pyc(path, kept) is None:
            stat, code = rewrite._rewrite_test(path, config)
            rewrite._write_pyc(config.stash[rewrite.assertstate_key], code, stat, kept)


@cache
def is_quick(path):
    """Whether the file's tests belong to `-m quick`."""
    return not _is_among(path, NOT_QUICK)


@cache
def _is_among(path, names):
    here = Path(__file__).parent
    return any((here / name) in (path, *path.parents) for name in names)


def pytest_ignore_collect(collection_path, config):
    """With `-m quick` nothing else is even imported: the engines take longer for that than many tests do."""
    return True if config.option.markexpr == "quick" and not is_quick(collection_path) else None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config, items):
    # Marks take a tenth of the collection, and nothing asks for them where none is chosen.
    for item in items if config.option.markexpr in ("all", "quick") else ():
        item.add_marker(pytest.mark.all)
        if is_quick(item.path) and not any(map(item.get_closest_marker, ("slow", "nightly"))):
            item.add_marker(pytest.mark.quick)
    yield
    # What is left of them is in order: what is first takes longest, and each process that runs some starts a
    # browser and servers of its own. A process keeps the beginning of its part until the others have nothing
    # else left to take over.
    first, engines, others = [], [], []
    for item in items:
        of_engines, of_first = _is_among(item.path, OF_ENGINES), _is_among(item.path, FIRST)
        (engines if of_engines else first if of_first else others).append(item)
    begin = len(items) // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    ordered = [*first, *others]
    items[:] = [*ordered[:begin], *engines, *ordered[begin:]]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    if _is_among(item.path, OF_LARGE_TENSORS):
        compiled_for_the_run()


def pytest_collection_finish():
    """What was imported and collected stays until the end: no later look for garbage goes through it."""
    gc.freeze()
