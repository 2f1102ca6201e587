"""The table of packages' methods: each chain answers as its package did, and the page has these rows."""

from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from quantviz.cli import quantviz
from quantviz.layers.methods import packages
from quantviz.layers.methods.awq import AWQ, AWQClip
from quantviz.layers.methods.block_scales import DoubleQuantization, FourOverSix
from quantviz.layers.methods.chain import as_chain
from quantviz.layers.methods.contract import MethodTask
from quantviz.layers.methods.corrections import BiasCorrection, LowRank
from quantviz.layers.methods.llm_int8 import LLMInt8
from quantviz.layers.methods.packages import PACKAGE_METHODS, of_chain, table
from quantviz.layers.methods.stored_first import Stored
from tests.layers.methods import rows_apart
from tests.layers.methods.compare import LLM_COMPRESSOR, MODELOPT, TORCHAO, layer, record
from tests.layers.methods.compare_trained import TRAINED
from tests.layers.methods.record_apart import DYNAMIC, RANKS
from tests.layers.methods.record_gptq import SETTINGS, layers

PAGE = Path(packages.__file__).with_name("README.md")
#: Recorded layers that are looked at; `compare` looks at all of them.
SOME = (0, 10, 17)


def scales_of(name, scheme, *, of_inputs=False):
    """Hold a chain to recorded scales of channels; `of_inputs` where the package has their inverse."""

    def hold(chain):
        for number in SOME:
            w, x = layer(number)
            ours = chain.bases[0].basis(MethodTask(w.double(), x.double(), scheme, None)).scales
            theirs = torch.from_numpy(record()[name][number]).flatten().double()
            torch.testing.assert_close(1 / ours if of_inputs else ours, theirs, rtol=2e-5, atol=0)

    return hold


def clips(chain):
    for number in SOME:
        w, x = layer(number)
        found = chain.rounding.round(MethodTask(w.double(), x.double(), MODELOPT, None)).trace.chosen
        largest = w.abs().unflatten(1, (-1, 32)).amax(2)
        theirs = torch.from_numpy(record()["modelopt_clip"][number])
        torch.testing.assert_close(found.float() * largest, theirs, rtol=1e-5, atol=0)


def sweeps(order):
    """Hold a chain to neural-compressor's dynamic groups; its damping there is the paper's."""

    def hold(chain):
        alike = chain.with_field("gptq", damping=0.01)
        for number, (w, x) in enumerate(layers()):
            setting = DYNAMIC[number]
            # Of 64 columns a block of 128 is all, as one of 2048 is.
            if (setting.order, setting.block, setting.damping) == (order, 128, 0.01):
                assert rows_apart._dynamic(number, w, x, str(alike))

    return hold


def loud(chain):
    assert chain.rounding == LLMInt8(6.0, "bitsandbytes")
    assert rows_apart._outliers(0, *next(layers()))


def is_one_of(*methods):
    """Hold a chain to be a method that other tests of this folder hold to the package."""

    def hold(chain):
        assert len(chain.methods) == 1
        assert chain.methods[0] in methods

    return hold


def is_autoawqs(chain):
    """Hold a chain to the two searches that `test_scaling.py` holds to AutoAWQ's formulas."""
    assert chain.bases == (AWQ("autoawq"),)
    assert chain.rounding == AWQClip("paper")


ANSWERS = {
    "auto-round: AutoRound, one layer": is_one_of(TRAINED[1][0]),
    "bitsandbytes: LLM.int8(), threshold 6": loud,
    "bitsandbytes: Linear4bit, compress_statistics": is_one_of(DoubleQuantization()),
    "brevitas: learned round, one layer": is_one_of(TRAINED[0][0]),
    "fouroversix: NVFP4, scale rule mse": is_one_of(FourOverSix()),
    "GPTQModel: GPTQ": sweeps("group_aware"),
    "AutoAWQ: AwqQuantizer, one layer": is_autoawqs,
    "llama.cpp: quantize --allow-requantize": is_one_of(Stored("q8_0")),
    "llm-compressor: GPTQModifier": is_one_of(*(as_chain(each.method).rounding for each in SETTINGS)),
    "llm-compressor: AWQModifier": scales_of("llm_compressor_awq", LLM_COMPRESSOR),
    "llm-compressor: SmoothQuantModifier": scales_of("llm_compressor_smooth_0.5", None),
    "modelopt: awq_lite": scales_of("modelopt_awq", MODELOPT),
    "modelopt: awq_clip": clips,
    "modelopt: smoothquant": scales_of("modelopt_smooth_1.0", None, of_inputs=True),
    "neural-compressor: GPTQ": sweeps("natural"),
    "peft: LoftQ, its decomposition": is_one_of(*(LowRank(rank, "none") for rank in RANKS)),
    "torch: equalize": is_one_of(rows_apart.EQUALIZED),
    "torch: bias_correction": is_one_of(BiasCorrection()),
    "torchao: AWQ": scales_of("torchao_awq", TORCHAO),
    "torchao: SmoothQuant": scales_of("torchao_smooth_0.5", None),
}


@pytest.mark.parametrize("row", PACKAGE_METHODS, ids=lambda row: row.name)
def test_each_chain_answers_as_its_package(row):
    chain = as_chain(row.chain)
    assert str(chain) == row.chain
    assert row in of_chain(row.chain)
    ANSWERS[row.name](chain)


def test_the_page_and_the_help_of_both_commands_have_these_rows():
    names = [row.name for row in PACKAGE_METHODS]
    assert len(set(names)) == len(names)
    assert set(ANSWERS) == set(names)
    text = PAGE.read_text(encoding="utf-8")
    assert table() in text, table()
    assert text.count("\n| ") == len(names) + 1
    for command in ("layer", "layers"):
        said = CliRunner().invoke(quantviz, [command, "--help"]).output
        for row in PACKAGE_METHODS:
            assert any(row.name in line and line.endswith(f" {row.chain}") for line in said.splitlines())
