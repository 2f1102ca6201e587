"""The original of a tensor as the maker of a quantized file had it before rounding: with a converter's
changes.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from quantviz.checkpoints.model.gguf_names import kind_of
from quantviz.errors import Note
from quantviz.schemes.granularity import Shape, Window
from quantviz.schemes.orientation import Orientation
from quantviz.sources.files import Catalog
from quantviz.sources.files.gguf import GgufCatalog
from quantviz.tensors.lazy import InMemory, Matrix, Oriented, Over, Stored, Values

#: Elements compared at a time: with fewer, the calls around the kernels take some of the time; with more, a
#: tensor has too few parts for threads to share.
ELEMENTS_PER_CHUNK = 2**21
#: Rows compared to decide between two ways in which the original was stored.
_FEW = 64
#: Kinds that GPT-2 stores with rows for columns.
_TURNED = ("attn_qkv", "attn_output", "ffn_up", "ffn_down")
#: Kinds whose rows llama.cpp reorders, each with the key of its number of heads.
_REORDERED = {"attn_q": "head_count", "attn_k": "head_count_kv"}

#: Architectures whose rows of q and k llama.cpp's converter reorders, since it rotates neighbours; and
#: those whose rows it leaves in place. Of others the values decide. Source: llama.cpp,
#: `convert_hf_to_gguf.py` and `conversion/` (051139f), `permute` and `undo_permute`.
REORDERED = frozenset(
    {
        *("llama", "llama-embed", "deci", "baichuan", "xverse", "minicpm", "olmo", "arctic", "deepseek"),
        *("granite", "granitemoe", "granitehybrid", "internlm2", "llada", "bailingmoe", "arcee", "smollm3"),
        "mistral3",
    }
)
IN_PLACE = frozenset(
    {
        *("qwen2", "qwen2moe", "qwen2vl", "qwen3", "qwen3moe", "qwen3vl", "qwen3vlmoe", "gemma", "gemma2"),
        *("gemma3", "gemma3n", "gemma-embedding", "phi2", "stablelm", "starcoder2", "command-r", "cohere2"),
        *("olmo2", "olmoe", "exaone", "exaone4", "nemotron", "gpt-oss", "seed_oss", "glm4", "glm4moe"),
        *("llama4", "apertus", "lfm2", "hunyuan-dense", "hunyuan-moe", "dots1", "bitnet", "llada-moe"),
    }
)
#: The last modules of q and k in Meta's own checkpoints, whose rows lie as llama.cpp reads them.
_METAS = ("wq", "wk")
#: An order of rows is wrong where the other one's error is less than this share.
_CLEARLY = 0.5

_TURNED_NOTE = (Note.of("audit.turned_inputs"),)
#: The name of an expert's weight in a tensor that holds all of them.
_OF_EXPERTS = re.compile(r"(.+)\[(\d{1,9})\]", re.ASCII | re.DOTALL)

#: Rows of a tensor in the quantized file, from one to before another, float32.
Rows = Callable[[int, int], torch.Tensor]


@dataclass(frozen=True, eq=False)
class Original:
    stored: Stored
    #: Whether its columns are the rows of the quantized tensor.
    turned: bool = False
    #: Its row, once it is turned, at each row of the quantized tensor; None where they are in place.
    rows: torch.Tensor | None = None
    #: Addend of every value.
    shift: float = 0.0
    #: Factors of the columns, and divisors of the rows.
    of_columns: torch.Tensor | None = None
    of_rows: torch.Tensor | None = None
    #: Whether the quantized tensor's rows lie in another order than its engine reads.
    misplaced: bool = False
    done: tuple[Note, ...] = ()

    @property
    def shape(self) -> Shape:
        shape = self.stored.shape[::-1] if self.turned else self.stored.shape
        return shape if self.rows is None else (len(self.rows), *shape[1:])

    def read(self, start: int, stop: int) -> torch.Tensor:
        """Return the original's values for some rows of the quantized tensor, float32 (rows, cols)."""
        x = self._in_order(self._lines, start, stop)
        x = x + self.shift if self.shift else x
        x = x if self.of_columns is None else x * self.of_columns
        return x if self.of_rows is None else x / self.of_rows[start:stop].unsqueeze(1)

    def as_stored(self, start: int, stop: int) -> torch.Tensor:
        """Return the same values in the dtype in which they are stored, where they only changed places."""
        if self.turned or self.shift or self.of_columns is not None or self.of_rows is not None:
            return self.read(start, stop)
        return self._in_order(self.stored.rows_as_stored, start, stop)

    def _in_order(self, read: Rows, start: int, stop: int) -> torch.Tensor:
        if self.rows is None:
            return read(start, stop)
        at = self.rows[start:stop]
        first = int(at.min())
        return read(first, int(at.max()) + 1)[at - first]

    def _lines(self, start: int, stop: int) -> torch.Tensor:
        lines = slice(start, stop)
        if self.turned:
            return self.stored.read((slice(None), lines)).T.contiguous()
        return self.stored.read((lines, *(slice(None),) * (len(self.shape) - 1)))

    def replace(self, *notes: Note, **changes: object) -> Original:
        return dataclasses.replace(self, done=(*self.done, *notes), **changes)  # type: ignore[arg-type]


class ColumnMatrix(Over):
    @property
    def shape(self) -> Shape:
        return (*self._stored.shape, 1)

    def run(self, start: int, stop: int) -> Values:
        return self._stored.run(start, stop)

    def read(self, index: Window) -> torch.Tensor:
        rows, _ = index
        part = self._stored.read((rows,))
        return part.unsqueeze(-1) if isinstance(rows, slice) else part


class JoinedRows(Stored):
    """Several matrices as one: their rows one after the other, or in groups in turn."""

    def __init__(self, parts: Sequence[Stored], groups: int) -> None:
        self._parts = tuple(parts)
        sizes = [part.shape[0] for part in self._parts]
        self._shape = (sum(sizes), *self._parts[0].shape[1:])
        #: The rows of each part among those of all.
        self._rows = [rows_of_part(number, sizes, groups) for number in range(len(sizes))]

    @property
    def shape(self) -> Shape:
        return self._shape

    @property
    def dtype(self) -> str:
        return self._parts[0].dtype

    def check(self) -> None:
        for part in self._parts:
            part.check()

    def run(self, start: int, stop: int) -> Values:
        width = math.prod(self._shape[1:])
        first = start // width
        last = -(-stop // width)
        others = (slice(None),) * (len(self._shape) - 1)
        values: Values = self.read((slice(first, last), *others)).flatten().numpy()
        return values[start - first * width : stop - first * width]

    def read(self, index: Window) -> torch.Tensor:
        rows, *others = index
        if not isinstance(rows, slice):
            return self.read((slice(rows, rows + 1), *others))[0]
        first, last, step = rows.indices(self._shape[0])
        joined: torch.Tensor | None = None
        for part, of_part in zip(self._parts, self._rows, strict=True):
            # The rows of a part are in order.
            begin, end = torch.searchsorted(of_part, torch.tensor([first, last])).tolist()
            if begin == end:
                continue
            values = part.read((slice(begin, end), *others))
            if joined is None:
                joined = values.new_empty((last - first, *values.shape[1:]))
            joined[of_part[begin:end] - first] = values
        assert joined is not None
        return joined[::step]


class Expert(Stored):
    def __init__(self, x: Stored, number: int) -> None:
        self._x = x
        self._number = number

    @property
    def shape(self) -> Shape:
        return self._x.shape[1:]

    @property
    def dtype(self) -> str:
        return self._x.dtype

    def run(self, start: int, stop: int) -> Values:
        before = self._number * self.count
        return self._x.run(before + start, before + stop)

    def read(self, index: Window) -> torch.Tensor:
        return self._x.read((self._number, *index))


def tensor_of(names: Container[str], name: str) -> tuple[str, int | None]:
    """Return the tensor that a name means, and which of its experts: `name[2]` is one, unless a tensor has
    that very name.

    >>> tensor_of(["a"], "a[2]"), tensor_of(["a[2]"], "a[2]")
    (('a', 2), ('a[2]', None))
    """
    match = None if name in names else _OF_EXPERTS.fullmatch(name)
    return (match[1], int(match[2])) if match else (name, None)


def original_of(catalog: Catalog, name: str, axes: int) -> Original:
    """Return a tensor, or an expert of one; one of more `axes` as a matrix, its first axis by all others."""
    tensor, expert = tensor_of(catalog, name)
    if catalog.info(tensor).shape == ():
        one_number = catalog.read(tensor)
        return Original(
            InMemory(one_number.tensor.unsqueeze(0), one_number.notes, catalog.info(tensor).dtype)
        )
    stored = catalog.stored(tensor)
    orientation = catalog.orientation(tensor)
    if expert is not None:
        # The outputs of one expert are an axis of its own matrix.
        inner = Orientation((orientation.outputs[-1] - 1,), orientation.by)
        one = Expert(stored, expert)
        return Original(Oriented(one, inner), done=_TURNED_NOTE) if inner.outputs == (1,) else Original(one)
    if orientation.is_turned and orientation.fits(stored.shape):
        return Original(Oriented(stored, orientation), done=_TURNED_NOTE)
    if axes == 2 and len(stored.shape) != 2:
        return Original(ColumnMatrix(stored) if len(stored.shape) == 1 else Matrix(stored))
    return Original(stored)


def bands(shape: Shape, step: int = 1) -> Iterator[tuple[int, int]]:
    """Yield the first row of each band of a tensor, and the first one after it.

    >>> list(bands((5, 2**20)))
    [(0, 2), (2, 4), (4, 5)]
    """
    columns = shape[1] if len(shape) > 1 else 1
    rows = max(1, ELEMENTS_PER_CHUNK // columns // step) * step
    for start in range(0, shape[0], rows):
        yield start, min(start + rows, shape[0])


def as_converted(
    catalog: Catalog, name: str, shape: Shape, rows: Rows, x: Original, partner: str
) -> Original:
    """Return the original as llama.cpp's converter wrote it: the rows of q and k reordered in their heads, 1
    added to Gemma's norms, GPT-2's weights turned.

    The metadata have the heads and the architecture, which decides on the order of q and k as llama.cpp reads
    them; of an unknown one, and in all else, the values decide. `partner` is the original's name.
    """
    place = kind_of(name)
    if not isinstance(catalog, GgufCatalog) or place is None:
        return x
    layer, kind = place
    if x.shape != shape and kind not in _TURNED:
        return x
    if kind in _TURNED and len(x.shape) == 2 and x.rows is None:
        other = x.replace(Note.of("audit.turned"), turned=True)
        if x.shape != shape:
            return other if other.shape == shape else x
        return _nearest_in(rows, [0], min(shape[0], _FEW), [x, other]) if other.shape == shape else x
    architecture = str(catalog.metadata.get("general.architecture", ""))
    if kind in _REORDERED:
        heads = _number(catalog.metadata, f"{architecture}.attention.{_REORDERED[kind]}", layer)
        if kind == "attn_k" and heads is None:
            heads = _number(catalog.metadata, f"{architecture}.attention.head_count", layer)
        if heads and x.shape[0] % (2 * heads) == 0:
            rows_of_heads = reordered_rows(x.shape[0], heads)
            # Of a part of one matrix these are rows of the part.
            combined = rows_of_heads if x.rows is None else x.rows[rows_of_heads]
            other = x.replace(Note.of("audit.reordered"), rows=combined)
            return _as_read(architecture, partner, rows, min(x.shape[0] // heads, _FEW), (x, other))
    if architecture.startswith("gemma") and kind.endswith("norm"):
        other = x.replace(Note.of("audit.norm_shift"), shift=1.0)
        values = rows(0, min(x.shape[0], _FEW))
        return min((x, other), key=lambda candidate: _difference(values, candidate.read(0, len(values))))
    return x


def _as_read(
    architecture: str, partner: str, rows: Rows, count: int, orders: tuple[Original, Original]
) -> Original:
    """Return the original in the order of q's and k's rows that llama.cpp reads for an architecture, with a
    note where the file has the other order.

    `orders` are the original's own order and the converter's; `count` rows are compared.
    """
    if architecture not in REORDERED | IN_PLACE:
        return _nearest_in(rows, [0], count, orders)
    is_reordered = architecture in REORDERED and kind_of(partner) is None
    is_reordered = is_reordered and not any(part in _METAS for part in partner.split("."))
    right, wrong = reversed(orders) if is_reordered else orders
    values = [rows(0, count)]
    if _error(values, [0], wrong) >= _CLEARLY * _error(values, [0], right):
        return right
    note = Note.of("audit.not_permuted" if is_reordered else "audit.permuted", architecture=architecture)
    return dataclasses.replace(right, done=(*orders[0].done, note), misplaced=True)


def oriented(shape: Shape, x: Original) -> Original:
    """Return the original turned where only then it fits: some libraries store a layer's inputs by its
    outputs.
    """
    if x.shape == shape or x.shape[::-1] != shape or x.turned or x.rows is not None:
        return x
    return x.replace(Note.of("audit.turned_to_fit"), turned=True)


def parts_of_one(shape: Shape, x: Original, number: int, sizes: tuple[int, ...]) -> list[Original]:
    """Return the candidates for matrix `number` in one that holds several, of `sizes` rows: its rows one
    after the other, or in groups in turn, as a head's query, key and value are; the same of that matrix
    turned. Empty where it does not fit.
    """
    doubled = (sum(sizes), *shape[1:])
    if not sizes or sizes[number] != shape[0]:
        return []
    forms = [x] if len(shape) == 1 else [x, x.replace(Note.of("audit.turned_inputs"), turned=True)]
    return [
        form.replace(_in_turn("part", groups), rows=rows_of_part(number, sizes, groups))
        for form in forms
        if form.shape == doubled
        for groups in _divisors(math.gcd(*sizes))
    ]


def joined(shape: Shape, parts: Sequence[Original]) -> list[Original]:
    """Return the candidates for a matrix that holds several: their rows one after the other, or in groups in
    turn.
    """
    columns = {shape[1:], shape[:1]} if len(shape) == 2 else {shape[1:]}
    stored = [
        Oriented(part.stored, Orientation((1,)))
        if len(shape) == 2 and part.shape[1:] not in columns and part.shape[:1] in columns
        else part.stored
        for part in parts
    ]
    inputs = {part.shape[1:] for part in stored}
    sizes = [part.shape[0] for part in stored]
    if len(inputs) > 1 or (sum(sizes), *stored[0].shape[1:]) not in (shape, shape[::-1]):
        return []
    turned = _TURNED_NOTE if any(isinstance(part, Oriented) for part in stored) else ()
    return [
        Original(JoinedRows(stored, groups), done=(*turned, _in_turn("joined", groups)))
        for groups in _divisors(math.gcd(*sizes))
    ]


def _in_turn(key: str, groups: int) -> Note:
    return Note.of(f"audit.{key}") if groups == 1 else Note.of(f"audit.{key}_in_turn", groups=groups)


def _divisors(number: int) -> list[int]:
    low = [n for n in range(1, math.isqrt(number) + 1) if number % n == 0]
    return low + [number // n for n in reversed(low) if n * n != number]


def rows_of_part(number: int, sizes: Sequence[int], groups: int) -> torch.Tensor:
    """Return the row in one matrix of each row of one of several in it.

    >>> rows_of_part(1, (4, 2), 1).tolist(), rows_of_part(0, (4, 2), 2).tolist()
    ([4, 5], [0, 1, 3, 4])
    """
    at = torch.arange(sizes[number])
    part_rows = sizes[number] // groups
    return at // part_rows * (sum(sizes) // groups) + sum(sizes[:number]) // groups + at % part_rows


def nearest(rows: Rows, count: int, originals: Sequence[Original]) -> Original:
    """Return the original nearest to the first and last rows of the quantized tensor."""
    if len(originals) == 1:
        return originals[0]
    some = min(count, _FEW)
    # The first rows of the first matrix, and the last of the last, are the same in any number of groups.
    return _nearest_in(rows, sorted({0, count - some}), some, originals)


def _nearest_in(rows: Rows, starts: Sequence[int], count: int, originals: Sequence[Original]) -> Original:
    values = [rows(start, start + count) for start in starts]
    return min(originals, key=lambda x: _error(values, starts, x))


def _error(values: Sequence[torch.Tensor], starts: Sequence[int], x: Original) -> float:
    """Return the squared error of rows of the quantized tensor, the original scaled to make it least."""
    reads = (
        x.read(start, start + len(original)).flatten() for original, start in zip(values, starts, strict=True)
    )
    original, read = torch.cat([band.flatten() for band in values]), torch.cat(list(reads))
    factor = float(original @ read / read.square().sum())
    return _difference(original, read * (factor if math.isfinite(factor) else 1.0))


def _difference(values: torch.Tensor, x: torch.Tensor) -> float:
    return float((values - x).square().sum())


def reordered_rows(count: int, heads: int) -> torch.Tensor:
    """Return the checkpoint's row at each row of llama.cpp's q or k: the halves of a head, in turn.

    >>> reordered_rows(8, 1).tolist()
    [0, 4, 1, 5, 2, 6, 3, 7]
    """
    size = count // heads
    at = torch.arange(count)
    head = at // size
    place = at % size
    return head * size + (place % 2) * (size // 2) + place // 2


def _number(metadata: Mapping[str, object], key: str, layer: int) -> int | None:
    value = metadata.get(key)
    if isinstance(value, tuple):
        value = value[layer] if layer < len(value) else None
    return value if type(value) is int and value > 0 else None
