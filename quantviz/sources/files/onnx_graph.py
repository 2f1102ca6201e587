"""The nodes of an ONNX model as uses of its tensors: the scales of quantized ones, the axis of outputs of
weights, the order and the names of nodes that use them.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field

from quantviz.schemes.orientation import Orientation

#: Nodes through which a weight goes unchanged in all but its dtype, as their first input.
_THROUGH = frozenset(("DequantizeLinear", "QuantizeLinear", "Identity", "Cast"))
#: The weight's place among the inputs of nodes that multiply by it, inputs × outputs; Gemm's have two axes.
_PRODUCTS = {
    **dict.fromkeys(("MatMul", "FusedMatMul", "MatMulInteger", "DynamicQuantizeMatMul"), 1),
    **dict.fromkeys(("MatMulIntegerToFloat", "Attention", "Gemm", "FusedGemm"), 1),
    **dict.fromkeys(("QLinearMatMul", "QGemm"), 3),
}
#: The same of nodes of a convolution, outputs × inputs × kernel.
_CONVOLUTIONS = {"Conv": 1, "FusedConv": 1, "ConvInteger": 1, "QLinearConv": 3}
_RECURRENT = frozenset(("LSTM", "GRU", "RNN"))
#: Most axes of a tensor whose outputs are searched for, and most nodes that are read for one.
_MOST_AXES = 5
_MOST_LOOKED_AT = 2000


@dataclass(frozen=True)
class Node:
    #: "" where it has none.
    name: str
    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    #: Its attributes that are whole numbers, or lists of them.
    numbers: Mapping[str, tuple[int, ...]]
    #: The graphs whose names it can use, by their path, its own first.
    scopes: tuple[str, ...]

    def number(self, name: str, otherwise: int) -> int:
        return next(iter(self.numbers.get(name, ())), otherwise)

    def input(self, place: int) -> str:
        """ "" where the node has no such input."""
        return self.inputs[place] if place < len(self.inputs) else ""


@dataclass(eq=False)
class Graph:
    nodes: list[Node] = field(default_factory=list)
    #: The outputs of the main graph.
    outputs: list[str] = field(default_factory=list)
    #: By a value's path and name, the tensor that it is, where the catalogue calls it otherwise.
    constants: dict[str, str] = field(default_factory=dict)
    listed: Mapping[str, object] = field(default_factory=dict)

    @functools.cached_property
    def _makers(self) -> dict[str, Node]:
        return {each.scopes[0] + out: each for each in self.nodes for out in each.outputs if out}

    @functools.cached_property
    def _uses(self) -> dict[str, list[tuple[Node, int]]]:
        found: dict[str, list[tuple[Node, int]]] = {}
        for node in self.nodes:
            for place in range(len(node.inputs)):
                value = self._value(node, place)
                if value is not None:
                    found.setdefault(value, []).append((node, place))
        return found

    def _value(self, node: Node, place: int) -> str | None:
        """Return an input's value, by the path of the graph that has it: a name of an inner graph comes
        before one of an outer. None where no graph here has it.
        """
        name = node.input(place)
        there = (self.constants, self.listed, self._makers)
        values = (scope + name for scope in node.scopes if name)
        return next((value for value in values if any(value in each for each in there)), None)

    def tensor(self, node: Node, place: int) -> str | None:
        """Return the catalogue's tensor that an input is; None where something computes it."""
        value = self._value(node, place)
        if value in self.constants:
            return self.constants[value]
        return value if value in self.listed else None

    def maker(self, node: Node, place: int) -> Node | None:
        """Return the node that computes an input."""
        return self._makers.get(self._value(node, place) or "")

    def orientation(self, tensor: str, axes: int) -> Orientation | None:
        """Return the axes that are outputs; None if no node shows them, or several disagree."""
        if not 2 <= axes <= _MOST_AXES:
            return None
        own = tuple(range(axes))
        waiting = [(name, own) for name in (tensor, *self._values_of.get(tensor, ()))]
        seen = set(waiting)
        found = set[tuple[int, ...]]()
        looked_at = 0
        while waiting:
            value, order = waiting.pop()
            for node, place in self._uses.get(value, ()):
                looked_at += 1
                if looked_at > _MOST_LOOKED_AT:
                    return None
                moved = _moved(node, place, order)
                outputs = None if moved else _own_outputs(node, place, axes)
                if outputs is not None:
                    found.add(tuple(sorted(order[axis] for axis in outputs)))
                after = [(node.scopes[0] + out, moved) for out in node.outputs] if moved else []
                waiting += (each for each in after if each not in seen)
                seen.update(after)
        return Orientation(found.pop(), "graph") if len(found) == 1 else None

    def user(self, tensor: str) -> Node | None:
        """Return the first node that computes with a tensor, behind those through which it goes."""
        waiting = [tensor, *self._values_of.get(tensor, ())]
        for value in waiting:
            for node, place in self._uses.get(value, ()):
                if place or node.operator not in (*_THROUGH, "Transpose"):
                    return node
                after = (node.scopes[0] + out for out in node.outputs)
                waiting += (each for each in after if each not in waiting)
            if len(waiting) > _MOST_LOOKED_AT:
                break
        return None

    def order(self) -> tuple[str, ...]:
        """Return the tensors that the outputs depend on, each where its first node takes it."""
        found: dict[str, None] = {}
        seen = set[int]()
        waiting: list[str | Node] = [self._makers[each] for each in self.outputs if each in self._makers]
        waiting.reverse()
        while waiting:
            each = waiting.pop()
            if isinstance(each, str):
                found.setdefault(each)
            elif id(each) not in seen:
                seen.add(id(each))
                inputs = (self.tensor(each, at) or self.maker(each, at) for at in range(len(each.inputs)))
                waiting += [before for before in inputs if before is not None][::-1]
        return tuple(found)

    @functools.cached_property
    def _values_of(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for value, tensor in self.constants.items():
            found.setdefault(tensor, []).append(value)
        return found


def _moved(node: Node, place: int, order: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the order of axes behind a node that a tensor goes through; None for any other node."""
    if place or (node.operator != "Transpose" and node.operator not in _THROUGH):
        return None
    if node.operator in _THROUGH:
        return order
    by = node.numbers.get("perm", tuple(range(len(order) - 1, -1, -1)))
    return tuple(order[axis] for axis in by) if sorted(by) == list(range(len(order))) else None


def _own_outputs(node: Node, place: int, axes: int) -> tuple[int, ...] | None:
    """Return the axes of outputs of a weight; None if the input is not a weight."""
    if node.operator in _CONVOLUTIONS:
        return (0,) if place == _CONVOLUTIONS[node.operator] else None
    if node.operator == "ConvTranspose":
        return (1,) if place == 1 else None
    if node.operator in _RECURRENT:
        return (0, 1) if place in (1, 2) and axes == 3 else None
    right = place == _PRODUCTS.get(node.operator)
    if node.operator not in _PRODUCTS or (place and not right) or (axes > 2 and "Gemm" in node.operator):
        return None
    turned = bool(node.number("transB" if right else "transA", 0))
    # The axes before the last two count matrices.
    return (*range(axes - 2), axes - 1 if right != turned else axes - 2)
