"""A small model to try a scan on, of seeded random tensors that the Lab can open too."""

from __future__ import annotations

from pathlib import Path

from quantviz.errors import QuantVizError
from quantviz.sources import LoudColumns, LoudRows, Normal, OneOutlier, Source, StudentT
from quantviz.whole_files import own_folder, put_whole

#: The example in place of a checkpoint's path; no file below a folder has that name.
EXAMPLE = "example:"
_LAYERS = 8
_HIDDEN = 128
_WIDE = 256
_WORDS = 512
_EXPERTS = 4
_SPARSE = (5, 6)


def example_tensors() -> dict[str, Source]:
    found: dict[str, Source] = {"model.embed_tokens.weight": Normal(_WORDS, _HIDDEN, 1)}
    for layer in range(_LAYERS):
        at = f"model.layers.{layer}"
        for k, kind in enumerate(("q_proj", "k_proj", "v_proj", "o_proj")):
            found[f"{at}.self_attn.{kind}.weight"] = _drawn(kind, layer, _HIDDEN, _HIDDEN, 100 * layer + k)
        parts = [f"mlp.experts.{e}" for e in range(_EXPERTS)] if layer in _SPARSE else ["mlp"]
        for e, part in enumerate(parts):
            for k, (kind, rows, cols) in enumerate(
                (("gate_proj", _WIDE, _HIDDEN), ("up_proj", _WIDE, _HIDDEN), ("down_proj", _HIDDEN, _WIDE))
            ):
                seed = 100 * layer + 10 * (e + 1) + k
                found[f"{at}.{part}.{kind}.weight"] = _drawn(kind, layer, rows, cols, seed)
    found["lm_head.weight"] = Normal(_WORDS, _HIDDEN, 2)
    return found


def _drawn(kind: str, layer: int, rows: int, cols: int, seed: int) -> Source:
    """Return a tensor as layers often have it: loud input columns after a norm, heavy tails later."""
    if kind == "down_proj" and layer in (1, 2, 6):
        return LoudColumns(rows, cols, seed, every=64, factor=20.0)
    if kind == "o_proj" and layer >= 5:
        return StudentT(rows, cols, seed, df=4.0)
    if kind == "q_proj" and layer == 0:
        return OneOutlier(rows, cols, seed, value=60.0)
    if kind == "k_proj" and layer == 3:
        return LoudRows(rows, cols, seed, every=16, factor=12.0)
    return Normal(rows, cols, seed)


def example_file() -> Path:
    """Return the example's file, written where it is missing; `QuantVizError` without a folder of this
    user's.
    """
    folder = own_folder("example")
    if folder is None:
        raise QuantVizError("checkpoint.no_cache")
    file = folder / "example.safetensors"
    if not file.is_file():
        from safetensors.torch import save

        raw = save({name: source.tensor() for name, source in example_tensors().items()})
        put_whole(file, raw)
    return file
