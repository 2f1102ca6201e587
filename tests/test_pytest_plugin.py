"""The plugin of pytest, run as another project's tests run it."""

pytest_plugins = ["pytester"]

TESTS = """
import pytest, torch

@pytest.fixture
def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(64, 96), torch.nn.ReLU(), torch.nn.Linear(96, 10))

def test_passes(assert_sqnr, model):
    assert_sqnr(model, "int8_per_row", at_least=30)

def test_names_the_weight(assert_sqnr, model):
    assert_sqnr(model, "int4_per_row", at_least=60)

def test_leaves_it_aside(assert_sqnr, model):
    assert_sqnr(model, "int4_per_row", at_least=10, exclude="2.*")

def test_measures_nothing(assert_sqnr, model):
    assert_sqnr(model, "int8_per_row", at_least=15, exclude="*")

def test_of_a_file(assert_sqnr, model, tmp_path):
    torch.save(model.state_dict(), tmp_path / "model.pt")
    assert_sqnr(tmp_path / "model.pt", "int8_per_row", at_least=30)
"""


def test_a_model_is_held_to_its_bound(pytester, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(TESTS)
    result = pytester.runpytest_inprocess("-p", "quantviz.pytest_plugin", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=3, failed=2)
    words = result.stdout.str()
    assert "0.weight: int4_per_row: the SQNR is" in words
    assert "no weight was measured" in words
