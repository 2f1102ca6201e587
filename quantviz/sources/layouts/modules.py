"""The tensors of a file by module: a quantized weight lies in several tensors of one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

#: Most parts that an attribute's name has: `weight.quant_state.bitsandbytes__nf4`.
_DEEPEST = 3
#: The name that a module gives its weight, and that tensors of its own may stand below.
_WEIGHT = "weight"


@dataclass(frozen=True)
class Module:
    """A module of a model, as the names of its tensors show it."""

    #: Its name with a dot behind it, "" where names have no dot.
    prefix: str
    #: The names of its tensors by attribute, the part of the name after the prefix.
    tensors: Mapping[str, str]


def modules_of(names: Collection[str]) -> dict[str, Module]:
    """Return the modules by their prefix, in the order of their first tensors.

    >>> modules = modules_of(["a.q.weight", "a.q.weight.absmax", "a.q.bias", "b"])
    >>> {prefix: list(module.tensors) for prefix, module in modules.items()}
    {'a.q.': ['weight', 'weight.absmax', 'bias'], '': ['b']}
    """
    known = set(names)
    tensors: dict[str, dict[str, str]] = {}
    for name in names:
        prefix = prefix_of(name, known)
        tensors.setdefault(prefix, {})[name[len(prefix) :]] = name
    return {prefix: Module(prefix, own) for prefix, own in tensors.items()}


def prefix_of(name: str, names: Collection[str]) -> str:
    """Return the prefix of the module that a tensor belongs to; `names` are those of the file.

    A tensor below another tensor, or below a weight, belongs to the module of that one.

    >>> prefix_of("q.weight._data", ()), prefix_of("q.qweight", ()), prefix_of("x", ())
    ('q.', 'q.', '')
    """
    head = above = name.rpartition(".")[0]
    for _ in range(_DEEPEST):
        parent, _, last = above.rpartition(".")
        if above and (last == _WEIGHT or above in names):
            head = parent
            break
        above = parent
    return f"{head}." if head else ""
