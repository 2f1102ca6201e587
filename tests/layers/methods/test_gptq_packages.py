"""GPTQ is llm-compressor's: `record_gptq` has the package's answers about small layers.

Packages compute in float32: one near tie flips, and the rest of its row follows. So codes agree up to a few
per cent, and the objective to one.
"""

import json

import pytest
import torch

import quantviz as qv
from tests.layers.methods.compare_gptq import PAGE, answers, compared, lines
from tests.layers.methods.record_gptq import SETTINGS, layers


@pytest.fixture(scope="module")
def record():
    return answers()


@pytest.fixture(scope="module")
def rows(record):
    return list(compared(record))


@pytest.mark.parametrize("number", range(len(SETTINGS)))
def test_codes_and_objective_are_the_packages(rows, number):
    assert rows[number].verdict == "agrees"
    assert rows[number].gain < 1


def test_the_page_has_these_numbers_and_names_their_producers(record, rows):
    assert PAGE.read_text(encoding="utf-8").splitlines() == lines(record, rows)
    about = json.loads(record["about"].tobytes())
    assert about["producers"]["llmcompressor"] == "0.14.0.1"
    assert len(SETTINGS) >= 20


def test_the_variants_of_engines_are_what_they_say():
    w, x = next(layers())
    scheme = "int4,symmetric,per_group(size=8),min_max,course"
    found = {
        variant: qv.layer(w, x, scheme, None, method=f"gptq(variant={variant})")
        for variant in ("paper", "full_inverse", "last_scale", "sliced_scale")
    }
    nearest = qv.layer(w, x, scheme, None)
    error = {name: result.rel_out.used for name, result in found.items()}
    # A scale of the column itself leaves no error to push: the codes are those of rounding to nearest.
    assert error["sliced_scale"] == nearest.rel_out.used
    # Without the corrections of the inverse the pushes are not the best ones.
    assert error["paper"] < error["full_inverse"]
    # The codes are the paper's; decoded with another group's scale they are worse than any rounding.
    assert torch.equal(*(found[name].weights.study.result.q for name in ("paper", "last_scale")))
    assert error["last_scale"] > nearest.rel_out.used


def test_groups_stay_whole_in_the_order_of_groups():
    w, x = next(layers())
    scheme = "int4,symmetric,per_group(size=8),min_max,course"
    kept = qv.layer(w, x, scheme, None, method="gptq(order=group_aware,groups=dynamic)")
    assert kept.effective_bits == 6.0
    trace = kept.trace["gptq"]
    assert sorted(trace.order.tolist()) == list(range(64))
    starts = trace.order[::8] // 8
    assert all((trace.order[8 * at : 8 * at + 8] // 8 == starts[at]).all() for at in range(8))
    r = kept.weights.study.result
    assert torch.equal(qv.dequantize(r.q, r.scheme, r.qparams), r.x_hat)
    assert kept.rel_out.used < qv.layer(w, x, scheme, None).rel_out.used
