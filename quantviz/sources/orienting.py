"""The axes of a file's weights that are outputs: by names, biases, shapes and configuration.

A format whose file contains the model's graph uses that first (`Catalog._declared_orientation`).
"""

from __future__ import annotations

import functools
import re
from typing import Any, Protocol

from quantviz.errors import QuantVizError
from quantviz.schemes.granularity import Shape
from quantviz.schemes.orientation import MOST_WEIGHT_AXES, Orientation

#: Models of transformers whose layers are Conv1D, by `model_type`. Source: transformers 5.24, `Conv1D(` in
#: models/*/modeling_*.py; jais comes with code of its own.
_CONV1D_MODELS = frozenset(("gpt2", "openai-gpt", "imagegpt", "decision_transformer", "clvp", "jais"))
#: The last module of their weights. Others (nanoGPT, GPT-Neo, Qwen, CLIP) have linear layers of these names.
_CONV1D_NAMES = frozenset(("c_attn", "c_proj", "c_fc", "q_attn"))
#: c_attn makes queries, keys and values of as many inputs, or keys and values.
_OUTPUTS_OF_C_ATTN = (2, 3)
#: A name ends so where Keras and Flax name it: inputs × outputs, a convolution's with the kernel before.
_KERNEL = re.compile(r"(?:^|[./:])(?:kernel|recurrent_kernel|pointwise_kernel)(?::\d+)?$")
#: Containers of experts: gate and up are joined, and down undoes them.
_GATE_UP = "experts.gate_up_proj"
_DOWN = "experts.down_proj"
_WEIGHT = re.compile(r"(?:^|[._])(?:weight|in_proj_weight|weight_g|weight_v)(?:\[\d+\])?$")


class _Info(Protocol):
    @property
    def shape(self) -> Shape: ...


class _Tensors(Protocol):
    @property
    def names(self) -> tuple[str, ...]: ...

    def info(self, name: str) -> _Info: ...

    def json_beside(self, name: str) -> object: ...


class Orienting:
    def __init__(self, catalog: _Tensors) -> None:
        self._catalog = catalog

    def of(self, name: str) -> Orientation:
        shape = self._catalog.info(name).shape
        found = self._found(name, shape) if 2 <= len(shape) <= MOST_WEIGHT_AXES else None
        if found is not None and found.fits(shape):
            return found
        return Orientation(by="convention" if _WEIGHT.search(name) or len(shape) < 2 else "guess")

    def _found(self, name: str, shape: Shape) -> Orientation | None:
        if _KERNEL.search(name):
            of_last = Orientation((len(shape) - 1,), "names")
            return self._kernel_of_three(name, shape) if len(shape) == 3 else of_last
        if name.endswith((_GATE_UP, _DOWN)) and len(shape) == 3:
            return self._of_experts(name)
        if len(shape) != 2:
            return None
        known = _module(name) in _CONV1D_NAMES and name.endswith(".weight")
        if known and self._model_type in _CONV1D_MODELS:
            return Orientation((1,), "config")
        return self._by_bias(name, shape) or (self._as_others if known else None)

    def _kernel_of_three(self, name: str, shape: Shape) -> Orientation | None:
        """Return the orientation by the bias, of a convolution or of attention with two axes of outputs."""
        bias = self._shape_of(re.sub(r"\w+((?::\d+)?)$", r"bias\1", name, count=1))
        if bias == shape[1:]:
            return Orientation((1, 2), "bias")
        return Orientation((2,), "bias" if bias == shape[2:] else "names")

    def _of_experts(self, name: str) -> Orientation | None:
        """Return the orientation: gate and up have twice as many outputs as down has inputs."""
        stem = name.removesuffix(_GATE_UP).removesuffix(_DOWN)
        gate_up = self._shape_of(stem + _GATE_UP)
        down = self._shape_of(stem + _DOWN)
        if gate_up is None or down is None or len(gate_up) != 3 or len(down) != 3:
            return None
        turned = gate_up[2] == 2 * down[1] and gate_up[1] == down[2]
        straight = gate_up[1] == 2 * down[2] and gate_up[2] == down[1]
        if turned == straight:
            return None
        return Orientation((0, 2) if turned else (0, 1), "shapes")

    def _by_bias(self, name: str, shape: Shape) -> Orientation | None:
        if not name.endswith(".weight") or shape[0] == shape[1]:
            return None
        bias = self._shape_of(f"{name.removesuffix('weight')}bias")
        return next((Orientation((axis,), "bias") for axis in (0, 1) if bias == (shape[axis],)), None)

    @functools.cached_property
    def _as_others(self) -> Orientation | None:
        """Return the orientation that weights of like name show; None if they disagree."""
        found = {axis for name in self._catalog.names for axis in self._votes(name)}
        return Orientation((found.pop(),), "names") if len(found) == 1 else None

    def _votes(self, name: str) -> tuple[int, ...]:
        module = _module(name)
        if module not in _CONV1D_NAMES or not name.endswith(".weight"):
            return ()
        shape = self._shape_of(name)
        if shape is None or len(shape) != 2:
            return ()
        if (by_bias := self._by_bias(name, shape)) is not None:
            return by_bias.outputs
        for axis in (0, 1):
            if module == "c_attn" and any(shape[axis] == n * shape[1 - axis] for n in _OUTPUTS_OF_C_ATTN):
                return (axis,)
        return ()

    @functools.cached_property
    def _model_type(self) -> str:
        try:
            config: Any = self._catalog.json_beside("config.json")
        except QuantVizError:
            return ""  # a layout that needs the configuration raises this error
        kind = config.get("model_type") if isinstance(config, dict) else None
        return kind if isinstance(kind, str) else ""

    def _shape_of(self, name: str) -> Shape | None:
        try:
            return self._catalog.info(name).shape if name in self._there else None
        except QuantVizError:
            return None  # its shard is not there

    @functools.cached_property
    def _there(self) -> frozenset[str]:
        return frozenset(self._catalog.names)


def _module(name: str) -> str:
    return name.rpartition(".")[0].rpartition(".")[2]
