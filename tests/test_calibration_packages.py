"""The calibrations of engines say what their packages say: `tests/calibrations` has the packages' answers.

`python -m tests.calibrations` compares all of them, and writes the table of `tests/calibrations/README.md`.
"""

import re
from pathlib import Path

import numpy as np
import pytest
import torch

import quantviz as qv
from quantviz.schemes.engine_calibrations import (
    ENGINE_CALIBRATIONS,
    OCTAV,
    ACIQGauss,
    ACIQLaplace,
    EntropyONNXRuntime,
    MSETorch,
)
from tests.calibrations import ACIQ_FACTORS, CASES, digest, tensors
from tests.calibrations.__main__ import COLUMNS, MARKS, README, lines
from tests.calibrations.compare import KINDS, differences, record, tallies
from tests.helpers.sample import sample_of

TENSORS = tensors()


@pytest.mark.parametrize("package", CASES)
def test_it_is_the_package(package):
    answers = record(package)["answers"]
    for form in sample_of(answers, 3):
        for name, answer in answers[form].items():
            kinds = set(differences(qv.Scheme.parse(form), TENSORS[name], answer))
            assert kinds <= set(KINDS[:-1]), (form, name)


def test_all_that_is_said_to_be_asked_was_asked_of_these_tensors():
    pinned = dict(
        line.split("==")
        for line in Path(__file__).with_name("requirements.txt").read_text(encoding="utf-8").splitlines()
        if "==" in line
    )
    for package, forms in CASES.items():
        known = record(package)
        assert tuple(known["answers"]) == forms
        assert known["tensors"] == {name: digest(x) for name, x in TENSORS.items()}
        assert all(tuple(answers) == tuple(TENSORS) for answers in known["answers"].values())
        wanted = {"torch": torch.__version__.partition("+")[0], "llmcompressor": "0.14.0.1", **pinned}
        assert known["version"] == wanted[package], f"python -m tests.calibrations {package}"


def test_every_calibration_of_an_engine_is_compared():
    asked = {qv.Scheme.parse(form).calibration.id for forms in CASES.values() for form in forms}
    assert asked | set(ACIQ_FACTORS) == {kind.id for kind in ENGINE_CALIBRATIONS}


def test_the_table_has_all_of_them_and_nothing_unexplained():
    inside = re.search(f"{MARKS[0]}\n(.*)\n{MARKS[1]}", README.read_text(encoding="utf-8"), re.S)
    rows = [line.strip("| ").split(" | ") for line in inside[1].splitlines()]
    assert tuple(rows[0]) == COLUMNS
    assert [row[-1] for row in rows[2:]] == ["0"] * (len(ENGINE_CALIBRATIONS) - len(ACIQ_FACTORS))
    # Those of one package anew.
    own = list(lines(tallies(("onnxruntime",))))
    assert own[2:] == [line for line in inside[1].splitlines() if "onnxruntime" in line]


def test_an_answer_that_is_off_is_told():
    form, name = "int8,symmetric,per_tensor,percentile_modelopt,course", "gaussian"
    scheme, x = qv.Scheme.parse(form), TENSORS[name]
    right = record("nvidia-modelopt")["answers"][form][name]
    width = float(x.abs().max()) / scheme.calibration.bins
    for bins, kind in ((0, "equal"), (0.9, "within one"), (1.5, "unexplained")):
        moved = {"lo": [right["lo"][0]], "hi": [right["hi"][0] + bins * width]}
        assert list(differences(scheme, x, moved)) == [kind]
    form = "uint4,asymmetric,per_channel(axis=0),hqq,hqq"
    answer = record("hqq")["answers"][form][name]
    assert set(differences(qv.Scheme.parse(form), x, answer)) == {"equal"}
    assert set(differences(qv.Scheme.parse(form), x, {**answer, "codes": ""})) == {"unexplained"}


# ---- what is in no package, and what one would not expect -----------------------------------------


@pytest.mark.parametrize("kind", [ACIQGauss, ACIQLaplace], ids=lambda kind: kind.id)
def test_aciq_clips_where_its_authors_do(kind):
    for bits, factor in enumerate(ACIQ_FACTORS[kind.id], 1):
        for name in ("gaussian", "bimodal"):
            x = TENSORS[name].to(torch.float64)
            mean, lowest, highest = (float(each) for each in (x.mean(), x.min(), x.max()))
            away = x - mean
            spread = away.square().mean().sqrt() if kind is ACIQGauss else away.abs().mean()
            found = qv.quantize(
                TENSORS[name], qv.Scheme(f"uint{bits}", "asymmetric", calibration=kind())
            ).range
            clip, room = factor * float(spread), 0.0101 * float(spread)
            assert found.lo.item() == pytest.approx(max(mean - clip, lowest), abs=room)
            assert found.hi.item() == pytest.approx(min(mean + clip, highest), abs=room)


def test_zeros_are_counted_by_octav_only_where_that_is_asked_for():
    def clips(x):
        schemes = (qv.Scheme("int4", calibration=OCTAV(each)) for each in (False, True))
        return [qv.quantize(x, scheme).range.hi.item() for scheme in schemes]

    without, counted = clips(TENSORS["gaussian"])
    assert without == counted
    without, counted = clips(TENSORS["zeros included"])
    assert without != counted
    assert without == clips(TENSORS["zeros included"][TENSORS["zeros included"] != 0])[0]


def test_torchs_range_for_four_bits_is_that_for_eight():
    found = [
        qv.quantize(TENSORS["laplace"], qv.Scheme(fmt, "asymmetric", calibration=MSETorch())).range
        for fmt in ("uint4", "uint8")
    ]
    assert found[0].hi.item() == found[1].hi.item() < TENSORS["laplace"].max().item()


def test_onnxruntimes_entropy_is_min_to_max_by_default():
    x = TENSORS["outliers"]
    found = qv.quantize(x, qv.Scheme("int8", "asymmetric", calibration=EntropyONNXRuntime())).range
    assert (found.lo.item(), found.hi.item()) == (x.min().item(), x.max().item())
    wider = qv.Scheme("int8", "asymmetric", calibration=EntropyONNXRuntime(bins=2048))
    assert qv.quantize(x, wider).range.hi.item() < x.max().item() / 2
    assert np.isfinite(qv.metrics(qv.quantize(x, wider))["mse"])
