"""Partners of an ONNX model's tensors by its graph: exporters number initializers anew, tools rename them.

A node keeps its name when its weight is quantized, but for a tool's suffix. Where nodes have other names or
none, tensors are reached from the outputs in one order, whatever they are called.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from quantviz.checkpoints.model.items import ModelItem
from quantviz.schemes.granularity import Shape
from quantviz.sources.files.onnx_graph import Graph

#: Suffixes of ONNX Runtime's quantizers behind a node's name.
_OF_TOOL = re.compile(r"(_MatMul)?(_quant(ized)?|_Q\d+(G\d+)?)?$", re.ASCII)
#: The name that torch.onnx gives a module's node: its path, and the operator.
_OF_MODULE = re.compile(r"/(.+)/[A-Za-z]+(?:_\d+)?", re.ASCII)

#: Operators whose scalars are scales and zero points, of inputs and outputs too.
_QUANTIZED = re.compile(r"(De)?[Qq]uantizeLinear|QLinear\w+|QGemm|Dynamic\w+|\w+Integer\w*", re.ASCII)


def matched_by_graph(
    here: Graph, items: Iterable[ModelItem], there: Graph, others: Iterable[ModelItem]
) -> dict[str, str]:
    ordered = _in_order(here, items)
    originals = _in_order(there, others)
    partners: dict[str, str] = {}
    # Operands of an addition may be exchanged: that is no reason to doubt the order of matrices.
    for is_vector in (False, True):
        partners |= _by_order(
            *([item for item in side if (len(item.shape) == 1) == is_vector] for side in (ordered, originals))
        )
    by_node = _by_node(here, ordered)
    for shape, theirs in _by_node(there, originals).items():
        ours = by_node.get(shape, {})
        if ours.keys() <= theirs.keys() or theirs.keys() <= ours.keys():
            partners |= {ours[node]: theirs[node] for node in ours.keys() & theirs.keys()}
    return partners


def modules_of(graph: Graph, items: Iterable[ModelItem]) -> Mapping[str, str]:
    """Return the PyTorch names of weights by the nodes that use them, by their names in the graph.

    `/model/layers.0/mlp/up_proj/MatMul` uses `model.layers.0.mlp.up_proj.weight`.
    """
    weights = [item for item in items if item.is_weight]
    matches = {item.name: _OF_MODULE.fullmatch(_node(graph, item)) for item in weights}
    names = {name: f"{match[1].replace('/', '.')}.weight" for name, match in matches.items() if match}
    counts = Counter(names.values())
    return {name: module for name, module in names.items() if counts[module] == 1}


def is_of_inputs(graph: Graph, item: ModelItem) -> bool:
    node = graph.user(item.parts[0])
    return item.elements == 1 and node is not None and bool(_QUANTIZED.fullmatch(node.operator))


def _in_order(graph: Graph, items: Iterable[ModelItem]) -> list[ModelItem]:
    by_tensor = {item.parts[0]: item for item in items if item.kind in ("weight", "plain") and item.shape}
    return [by_tensor[tensor] for tensor in graph.order() if tensor in by_tensor]


def _by_order(items: Sequence[ModelItem], others: Sequence[ModelItem]) -> dict[str, str]:
    counts = [Counter(_kind(item) for item in side) for side in (items, others)]
    alike = {kind for kind, count in counts[0].items() if counts[1][kind] == count}
    ours, theirs = ([item for item in side if _kind(item) in alike] for side in (items, others))
    if list(map(_kind, ours)) != list(map(_kind, theirs)):
        return {}
    return {one.name: other.name for one, other in zip(ours, theirs, strict=True)}


def _by_node(graph: Graph, items: Iterable[ModelItem]) -> dict[Shape, dict[str, str]]:
    """Return the names of tensors by their nodes, of shapes for which each has another node."""
    by_kind: dict[Shape, list[tuple[str, str]]] = defaultdict(list)
    for item in items:
        by_kind[_kind(item)].append((_node(graph, item), item.name))
    named = {shape: dict(pairs) for shape, pairs in by_kind.items()}
    return {
        shape: nodes
        for shape, nodes in named.items()
        if "" not in nodes and len(nodes) == len(by_kind[shape])
    }


def _node(graph: Graph, item: ModelItem) -> str:
    """Return the name of the node that uses a tensor, without a tool's suffix; "" without one."""
    node = graph.user(item.parts[0])
    return _OF_TOOL.sub("", node.name) if node else ""


def _kind(item: ModelItem) -> Shape:
    """Return a shape, or the turned one: quantizers turn some matrices."""
    return min(item.shape, item.shape[::-1])
