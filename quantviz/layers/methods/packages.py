"""The methods of packages as chains: `smoothquant(variant=modelopt)` is what modelopt does by default.

A row is added here: one entry of `PACKAGE_METHODS`, with a test that holds its chain to the package's answers
in `tests/layers/methods/test_packages.py`; the table of README.md in this folder is written from them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

_HEAD = "| package | method there, with its defaults | chain here | held to |\n|---|---|---|---|\n"


@dataclass(frozen=True)
class PackageMethod:
    """A method as a package runs it by default, and the chain that does the same."""

    package: str
    #: The package's own name of it.
    method: str
    chain: str
    #: The answers that a test holds the chain to.
    held: str

    @property
    def name(self) -> str:
        return f"{self.package}: {self.method}"


_RECORDED = "its recorded answers"
_LIVE = "its answers in the test"
PACKAGE_METHODS = (
    PackageMethod("auto-round", "AutoRound, one layer", "signround", f"{_RECORDED}, by the error left"),
    PackageMethod(
        "AutoAWQ", "AwqQuantizer, one layer", "awq(variant=autoawq)+awq_clip", "its formulas in NumPy"
    ),
    PackageMethod("bitsandbytes", "LLM.int8(), threshold 6", "llm_int8(variant=bitsandbytes)", _LIVE),
    PackageMethod("bitsandbytes", "Linear4bit, compress_statistics", "double_quantization", _RECORDED),
    PackageMethod("brevitas", "learned round, one layer", "adaround", f"{_RECORDED}, by the error left"),
    PackageMethod("fouroversix", "NVFP4, scale rule mse", "four_over_six", _RECORDED),
    PackageMethod(
        "GPTQModel",
        "2.x and 3.x, GPTQ",
        "gptq(groups=dynamic,order=activation)",
        "neural-compressor's recorded answers in this order",
    ),
    PackageMethod(
        "GPTQModel",
        "5.x, GPTQ",
        "gptq(groups=dynamic,order=group_aware,damping=0.05)",
        "neural-compressor's recorded answers in this order, but for the damping",
    ),
    PackageMethod(
        "llama.cpp", "quantize --allow-requantize", "stored(recipe=q8_0)", "gguf's answers in the test"
    ),
    PackageMethod("llm-compressor", "GPTQModifier", "gptq(order=activation,cleared=after)", _RECORDED),
    PackageMethod("llm-compressor", "AWQModifier", "awq(variant=llm_compressor)", _RECORDED),
    PackageMethod("llm-compressor", "SmoothQuantModifier", "smoothquant(variant=llm_compressor)", _RECORDED),
    PackageMethod("modelopt", "awq_lite", "awq(variant=modelopt)", _RECORDED),
    PackageMethod("modelopt", "awq_clip", "awq_clip(variant=modelopt)", _RECORDED),
    PackageMethod("modelopt", "smoothquant", "smoothquant(variant=modelopt)", _RECORDED),
    PackageMethod("neural-compressor", "GPTQ", "gptq(groups=dynamic,block=2048)", _RECORDED),
    PackageMethod("peft", "LoftQ, its decomposition", "low_rank(weighting=none)", _RECORDED),
    PackageMethod("torch", "equalize", "equalization(ranges=width)", _LIVE),
    PackageMethod("torch", "bias_correction", "bias_correction", _LIVE),
    PackageMethod("torchao", "AWQ", "awq", _RECORDED),
    PackageMethod("torchao", "SmoothQuant", "smoothquant(variant=torchao)", _RECORDED),
)


def of_chain(form: str) -> Iterator[PackageMethod]:
    return (each for each in PACKAGE_METHODS if each.chain == form)


def table() -> str:
    rows = (f"| {each.package} | {each.method} | `{each.chain}` | {each.held} |" for each in PACKAGE_METHODS)
    return _HEAD + "\n".join(rows) + "\n"


def help_table() -> str:
    """Return the table as a paragraph of a command's help that is not wrapped."""
    width = max(len(each.name) for each in PACKAGE_METHODS)
    rows = (f"  {each.name:{width}}  {each.chain}" for each in PACKAGE_METHODS)
    return "\b\n" + "\n".join(("Methods of packages, as chains:", *rows))
