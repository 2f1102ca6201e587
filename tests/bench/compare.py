"""`compare` of a GGUF and of a GPTQ file with their bfloat16 original, from a cold disk.

python -m tests.bench.compare compare [--gb 0.5] [--rounds 3] [--folder DIR]
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

import safetensors.torch

import quantviz as qv
from quantviz.jobs import keep_memory
from quantviz.sources.layouts.weight import plain_scheme
from quantviz.tensors.lazy import InMemory
from tests.bench.runner import case, judged, main, timed
from tests.bench.scan import cold, make_checkpoint, read
from tests.helpers.twins import write_gguf, write_gptq


def tensors_of(files):
    """Yield the tensors of each file with their names."""
    for file in files:
        yield from safetensors.torch.load_file(file).items()


@case
def compare(gb: float = 0.5, rounds: int = 3, folder: str = "") -> None:
    """A GGUF and a GPTQ file compared with their original, cold, against a plain read of the files and one
    float32 pass.

    Rates are weights a second, by the clock; the bar is half of the smaller of the two. The pass is `measure`
    of the twin's scheme on a layer's weights in memory. Beside them stands what a comparison takes of a
    processor, which says the same on a machine that others use.
    """
    keep_memory()  # as the command does
    with tempfile.TemporaryDirectory() as made:
        place = Path(folder or made)
        source, gguf, gptq = place / "original", place / "model-q4_0.gguf", place / "gptq/model.safetensors"
        for each in (source, gptq.parent):
            each.mkdir(parents=True, exist_ok=True)
        files = make_checkpoint(source, gb * 1e9)
        if not gguf.exists():
            write_gguf(gguf, tensors_of(files), architecture="llama", heads=(32, 8))
        if not gptq.exists():
            write_gptq(gptq, tensors_of(files), nearest=True)
        weights = [x.float() for _, x in tensors_of(files[:1]) if x.dim() == 2]
        some = sum(x.numel() for x in weights)
        count = some * len(files)
        groups = {"GGUF, Q4_0": (gguf, qv.RECIPES["q4_0"]), "GPTQ, 4 bits, groups of 128": (gptq, None)}
        for name, (file, recipe) in groups.items():

            def passed(recipe=recipe):
                for x in weights:
                    scheme = recipe or plain_scheme("uint4", "asymmetric", qv.PerGroup(128), tuple(x.shape))
                    qv.measure(InMemory(x), scheme)

            passed()
            qv.audit(file, source)
            rates, processor = [], []
            for _ in range(rounds):
                both = [*files, file]
                disk, in_memory = count / cold(both, read)[0], some / timed(passed)()
                took, used = cold(both, lambda _, file=file: qv.audit(file, source))
                rates.append((disk, in_memory, count / took))
                processor.append(used / count * 1e9)
            ratio = statistics.median(own / min(disk, rest) for disk, rest, own in rates)
            disk, rest, own = (statistics.median(each) / 1e6 for each in zip(*rates, strict=True))
            said = f"disk {disk:.0f} M/s, float32 pass {rest:.0f}, compare {own:.0f}"
            used = f"{statistics.median(processor):.1f} ns of a processor for each weight"
            print(f"{name}: {said}: {judged(ratio, 0.5, least=True)}; {used}", flush=True)


if __name__ == "__main__":
    main()
