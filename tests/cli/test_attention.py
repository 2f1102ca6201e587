"""`quantviz attention`: its numbers are the library's, its sentences and exit statuses."""

import json

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import quantviz as qv
from quantviz.cli import quantviz

GENERATOR = torch.Generator().manual_seed(5)
SIDES = {
    name: torch.randn(heads, 12, 16, generator=GENERATOR)
    for name, heads in (("a.query", 4), ("a.key", 2), ("a.value", 2))
}
SIDES["a.key"][..., 3] += 30
MASK = torch.zeros(12, 12).masked_fill(torch.ones(12, 12, dtype=torch.bool).triu(1), -1e30)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("attention") / "heads.npz"
    other = {f"b_{name}": SIDES[f"a.{word}"][:1] for name, word in (("q", "query"), ("k", "key"))}
    np.savez(path, **SIDES, **other, mask=MASK, norm=np.ones((3, 3), np.float32))
    return path


def run(*arguments, status=0):
    done = CliRunner().invoke(quantviz, ["attention", *map(str, arguments)])
    assert done.exit_code == status, (done.output, done.exception)
    return done


def test_the_record_is_the_librarys(file):
    options = qv.AttentionOptions(
        True, True, 5, "int8_per_token", "fp8_e4m3_per_tensor", 500.0, "pairs", "before"
    )
    schemes = ("int4_per_token", "int4_per_channel", "int8_per_tensor")
    expected = qv.attention(*SIDES.values(), *schemes, mask="causal", options=options)
    named = zip(("--keys", "--values", "--scores"), schemes, strict=True)
    given = (
        *("a", *(each for pair in named for each in pair), "--center", "--hadamard", "--residual", 5),
        *("--queries", "int8_per_token", "--weights", "fp8_e4m3_per_tensor", "--rotary", 500),
        *("--rotary-layout", "pairs", "--before-rotary"),
    )
    for mask in ("causal", "mask"):
        record = json.loads(run(file, *given, "--mask", mask, "--format", "json").stdout)
        assert record == pytest.approx(expected.record())
    heads = json.loads(run(file, *given, "--mask", "mask", "--heads", "--format", "json").stdout)
    assert [each["kl"] for each in heads] == pytest.approx(expected.table()["kl"].tolist())


def test_people_read_what_misleads(file):
    done = run(file, "a", "--keys", "int4_per_token", "--fail-over", 0.001, status=1)
    expected = qv.attention(*SIDES.values(), "int4_per_token")
    assert f"{expected.kl:.3g} bits" in done.stderr
    assert str(expected.notes[0]) in done.stderr
    assert "above 0.001" in done.stderr
    stored = expected.cache.keys + expected.cache.values
    assert f"{stored:,} bytes of {expected.cache.at_16_bits:,}" in done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()[1:]] == ["scores", "weights", "output"]
    assert "缓存" in run(file, "b", "--lang", "zh").stderr


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((), "2 sets of queries, keys and values. Name one of them: a, b"),
        (("c",), "no queries with their keys"),
        (("a", "--mask", "no"), "no"),
        (("a", "--keys", "int4_per_output"), "output"),
        (("a", "--rotary", "-1"), "rotary is 0 or above"),
    ],
)
def test_what_does_not_fit_gets_a_sentence(file, given, words):
    assert words in run(file, *given, status=2).stderr
