"""A dry run of a pickle in a PyTorch file.

`torch.load(weights_only=True)` runs no code of the file, but calls some forty classes and functions with any
arguments in the file: `bytearray(10**10)` is a file of twenty bytes, and a repeated argument takes its memory
again. So the opcodes are followed here first with stand-ins, and a file that does more than lay out tensors
is not passed to torch: a script that opens one has no boundary as the app has, see `sandbox`.
"""

from __future__ import annotations

import pickletools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import IO, Any, NamedTuple

#: Bytes an element of each class of storage, by its name under `torch`.
ITEM_BYTES = {
    f"{kind}Storage": size
    for size, kinds in (
        (1, ("Byte", "Char", "Bool", "Untyped", "QInt8", "QUInt8", "QUInt4x2", "QUInt2x4")),
        (2, ("Short", "Half", "BFloat16")),
        (4, ("Int", "Float", "QInt32")),
        (8, ("Long", "Double", "ComplexFloat")),
        (16, ("ComplexDouble",)),
    )
    for kind in kinds
}
_REBUILDS = (
    *("tensor", "tensor_v2", "tensor_v3", "parameter", "parameter_with_state", "qtensor", "sparse_tensor"),
    "meta_tensor_no_storage",
)
_TENSORS = frozenset(f"torch._utils._rebuild_{name}" for name in _REBUILDS)
_FROM_TYPE = "torch._tensor._rebuild_from_type_v2"
_DICTS = frozenset({"collections.OrderedDict", "collections.Counter"})
_ENCODE = "_codecs.encode"
#: The functions and classes that may be called. Any other name that is not a dtype or a storage of torch is a
#: Python object besides tensors.
_CALLED = frozenset(
    {
        *(*_TENSORS, *_DICTS, _FROM_TYPE, _ENCODE, "torch.Size", "torch.device"),
        *("torch.serialization._get_layout", "builtins.set", "builtins.complex"),
    }
)
#: Names that are only arguments of those.
_NAMED = frozenset({"torch.Tensor", "torch.nn.parameter.Parameter"})
_RENAMED = {"__builtin__": "builtins"}

#: Opcodes followed, and things made by them. A tensor takes some forty of the first and ten of the second.
_MOST_STEPS = 2**21
_MOST_MADE = 2**20
#: The cost of a call: a tensor takes more than a tuple.
_CALL_COST = 4
#: Elements and characters given to calls, all together.
_MOST_GIVEN = 2**20
_LONGEST_KEY = 2**16

_PUSHED = frozenset(
    {
        *("NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2", "BINFLOAT", "BINUNICODE", "LONG1"),
        "SHORT_BINSTRING",
    }
)
_EMPTY = {"EMPTY_LIST": "list", "EMPTY_DICT": "dict", "EMPTY_SET": "set"}
_PUTS = frozenset({"BINPUT", "LONG_BINPUT"})
_GETS = frozenset({"BINGET", "LONG_BINGET"})
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
#: Opcodes that add to a list or dict, with the number of items that each takes off the stack; 0 for all above
#: the mark.
_ADDS = {"APPEND": 1, "SETITEM": 2, "APPENDS": 0, "SETITEMS": 0}


class Forbidden(Exception):
    """The pickle holds more than tensors."""


class _Global(NamedTuple):
    name: str


class _Tuple(NamedTuple):
    items: tuple[Any, ...]
    #: Elements and characters in it and in tuples in it: some small tuples, each twice in the next, are more
    #: than a machine can walk through.
    size: int

    @classmethod
    def of(cls, items: tuple[Any, ...]) -> _Tuple:
        return cls(items, min(len(items) + sum(map(_size, items)), _MOST_GIVEN + 1))


@dataclass(eq=False)
class _Made:
    """A stand-in for a list, dict, set or the result of a call."""

    kind: str
    size: int = 0

    def add(self, items: Sequence[Any]) -> None:
        self.size = min(self.size + len(items) + sum(map(_size, items)), _MOST_GIVEN + 1)


class Storage(NamedTuple):
    key: str
    nbytes: int


@dataclass
class StoragePlan:
    storages: dict[str, Storage] = field(default_factory=dict)
    tensors: int = 0


class _Stack:
    """The pickle machine with stand-ins for everything but numbers, texts and tuples."""

    def __init__(self, plan: StoragePlan) -> None:
        self.plan = plan
        self.items: list[Any] = []
        self._below: list[list[Any]] = []
        self._memo: dict[int, Any] = {}
        self._made = self._given = 0

    def step(self, name: str, arg: Any) -> None:
        items = self.items
        if name in _PUSHED:
            items.append(arg)
        elif name in _PUTS:
            self._memo[arg] = items[-1]
        elif name in _GETS:
            items.append(self._memo[arg])
        elif name == "MARK":
            self._count(1)
            self._below.append(items)
            self.items = []
        elif name in _EMPTY:
            self._push(_Made(_EMPTY[name]))
        elif name == "EMPTY_TUPLE":
            items.append(_Tuple((), 0))
        elif name == "TUPLE":
            marked = self._marked()
            self._push(_Tuple.of(tuple(marked)))
        elif name in _TUPLES:
            parts = tuple(items[-_TUPLES[name] :])
            del items[-len(parts) :]
            self._push(_Tuple.of(parts))
        elif name in _ADDS:
            count = _ADDS[name]
            more = items[-count:] if count else self._marked()
            if count:
                del items[-count:]
            # A key is hashed, and that walks through all tuples in it.
            if name.startswith("SETITEM") and any(_size(key) > _LONGEST_KEY for key in more[::2]):
                raise Forbidden
            self.items[-1].add(more)
        elif name == "GLOBAL":
            items.append(_global(arg))
        elif name == "BINPERSID":
            items.append(self._storage(items.pop()))
        elif name == "REDUCE":
            args = items.pop()
            items.append(self._called(items.pop(), args))
        elif name == "BUILD":
            # The attributes of a state dict's own class: its versions.
            items.pop()
            if not isinstance(items[-1], _Made) or items[-1].kind not in _DICTS:
                raise Forbidden
        elif name != "PROTO":
            raise Forbidden

    def _push(self, item: Any) -> None:
        self._count(1)
        self.items.append(item)

    def _marked(self) -> list[Any]:
        above = self.items
        self.items = self._below.pop()
        return above

    def _count(self, cost: int) -> None:
        self._made += cost
        if self._made > _MOST_MADE:
            raise Forbidden

    def _storage(self, pid: Any) -> Storage:
        tag, kind, key, _, count = pid.items[:5]
        if (
            tag not in ("storage", b"storage")
            or not isinstance(kind, _Global)
            # Tuples of twice the same tuple make a text that does not end.
            or not isinstance(key, str | int)
            or type(count) is not int
            or count < 0
        ):
            raise Forbidden
        storage = Storage(str(key), count * ITEM_BYTES[kind.name.rpartition(".")[2]])
        if self.plan.storages.setdefault(storage.key, storage) != storage:
            raise ValueError
        return storage

    def _called(self, called: Any, args: Any) -> Any:
        self._count(_CALL_COST)
        if not isinstance(called, _Global) or called.name not in _CALLED or not isinstance(args, _Tuple):
            raise Forbidden
        self._given += args.size
        if self._given > _MOST_GIVEN:
            raise Forbidden
        if called.name == _FROM_TYPE and not (
            isinstance(args.items[0], _Global) and args.items[0].name in _TENSORS
        ):
            raise Forbidden
        # Bytes, as Python wrote them when it had no opcode for them; other encodings take time that grows
        # with the square of the text.
        if called.name == _ENCODE and args.items[1:] not in (("latin1",), ("latin-1",)):
            raise Forbidden
        self.plan.tensors += called.name in _TENSORS
        return _Made(called.name)


def _size(item: Any) -> int:
    if isinstance(item, _Tuple | _Made):
        return item.size
    if isinstance(item, str | bytes):
        return len(item)
    return 0


def _global(arg: str) -> _Global:
    module, _, name = arg.partition(" ")
    full = f"{_RENAMED.get(module, module)}.{name}"
    owner, _, last = full.rpartition(".")
    storage = owner in ("torch", "torch.storage", "torch.cuda") and last in ITEM_BYTES
    if not storage and full not in _CALLED and full not in _NAMED and not _is_plain_value(full):
        raise Forbidden
    return _Global(full)


def _is_plain_value(full: str) -> bool:
    """Return whether it names a dtype or a way of quantizing."""
    import torch

    owner, _, last = full.partition(".")
    return owner == "torch" and isinstance(getattr(torch, last, None), torch.dtype | torch.qscheme)


def follow(stream: IO[bytes], plan: StoragePlan) -> None:
    """Follow one pickle to its end, and record the tensors that it lays out in `plan`.

    Raises:
        Forbidden: It does more than that. Any other exception means that it is damaged.
    """
    stack = _Stack(plan)
    for step, (opcode, arg, _) in enumerate(pickletools.genops(stream)):
        if step > _MOST_STEPS:
            raise Forbidden
        if opcode.name == "STOP":
            stack.items.pop()
            return
        stack.step(opcode.name, arg)
