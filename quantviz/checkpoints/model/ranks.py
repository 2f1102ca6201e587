"""Pieces of weights in the files of several ranks, as tensor parallelism leaves them, joined to whole
ones.

Each rank's file has the same names; of a layer it has some rows or some columns. Megatron, DeepSpeed, Meta,
vLLM, TensorRT-LLM and DeepSeek each number such files in their own way.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch

from quantviz.checkpoints.model.layer_names import NAMES
from quantviz.errors import Note, QuantVizError
from quantviz.schemes.granularity import Shape, Window
from quantviz.sources.files.catalog import Catalog, TensorInfo
from quantviz.sources.files.file_data import clipped
from quantviz.sources.files.mapped import ends_of, same_bytes
from quantviz.sources.files.several import Joined
from quantviz.sources.stores.addresses import is_address

#: The number of a rank in a file's name, or in that of its folder: consolidated.00.pth, mp_rank_00,
#: tp_rank_00_pp_rank_000, model-rank-0-part-0, rank0, model0-mp8, pytorch_model-00006-TP-003, model_tp0,
#: reshard-model_part-0. Ranks of pipelines, data and experts have no pieces of one weight.
_RANK = re.compile(
    r"(?:(?:(?<![a-z])consolidated\.|(?<![a-z])(?<!pp_)(?<!dp_)(?<!ep_)(?:mp_|tp_|model_)?rank[_-]?"
    r"|(?<![a-z])model_part-|(?<![a-z])tp[_-]?)(?P<rank>\d{1,4})(?!\d)"
    r"|(?<![a-z])model(?P<of_model>\d{1,4})(?=-mp\d))",
    re.ASCII | re.IGNORECASE,
)
#: Names of a rank's file even if it is alone: rank_32 may be that of an adapter.
_SURELY = re.compile(r"(?<![a-z])(consolidated\.|[mt]p_rank|model_part-|model\d+-mp\d)", re.ASCII)
#: The last modules of layers whose outputs are shared out, and whose inputs; "dense" with the one before.
_BY_OUTPUTS, _BY_INPUTS, _EMBEDDINGS = (
    frozenset(NAMES["modules"][key]) for key in ("by_outputs", "by_inputs", "embeddings")
)


def rank_of(file: str) -> tuple[str, int] | None:
    """Return the common name of all ranks' files, with a mark for the rank, and the rank of one.

    >>> rank_of("m/consolidated.01.pth"), rank_of("m/mp_rank_03/model_optim_rng.pt")
    (('m/consolidated.*.pth', 1), ('m/mp_rank_*/model_optim_rng.pt', 3))
    >>> rank_of("m/model-00001-of-00002.safetensors"), rank_of("m/zero_pp_rank_0_optim_states.pt")
    (None, None)
    """
    *folders, parent, name = ["", "", *file.split("/")]
    for at, text in enumerate((name, parent)):
        if match := _RANK.search(text):
            which = "rank" if match["rank"] else "of_model"
            marked = f"{text[: match.start(which)]}*{text[match.end(which) :]}"
            parts = (*folders, parent, marked) if at == 0 else (*folders, marked, name)
            return "/".join(filter(None, parts)), int(match[which])
    return None


def files_of_ranks(file: str) -> tuple[str, ...]:
    """Return the files of all ranks beside that of one, in order; the file alone where it is no rank's."""
    this_rank = rank_of(file.replace("\\", "/"))
    if this_rank is None or is_address(file):
        return (file,)
    path = Path(file)
    in_folder = _RANK.search(path.name) is None
    places = path.parent.parent if in_folder else path.parent
    there = (folder / path.name if in_folder else folder for folder in places.iterdir())
    ranks = {str(path): rank_of(path.as_posix()) for path in there if path.is_file()}
    numbers = {path: rank[1] for path, rank in ranks.items() if rank is not None and rank[0] == this_rank[0]}
    return tuple(sorted(numbers, key=numbers.__getitem__)) if len(numbers) > 1 else (file,)


def joined_ranks(
    parts: Mapping[str, Catalog],
) -> tuple[dict[str, Catalog], tuple[Note, ...], tuple[str, ...]]:
    """Return open files with those of the ranks of one model as one, under the first rank's name; a note on
    each model; and the files of ranks that are missing by the numbers of the others.
    """
    groups: dict[str, dict[int, str]] = {}
    for file in parts:
        if rank := rank_of(file.replace("\\", "/")):
            groups.setdefault(rank[0], {})[rank[1]] = file
    whole = dict(parts)
    notes = []
    missing: list[str] = []
    for marked, group in groups.items():
        first, *others = (group[rank] for rank in sorted(group))
        ranks = tuple(parts[file] for file in (first, *others))
        if not set.intersection(*(set(part.names) for part in ranks)):
            continue
        if others or _SURELY.search(marked.replace("*", "0")):
            missing += _missing(marked, group)
        if not others:
            continue
        whole[first], count = _of_ranks(ranks)
        for file in others:
            del whole[file]
        notes.append(Note.of("checkpoint.ranks_joined", count=count, files=len(ranks)))
    return whole, tuple(notes), tuple(missing)


def _missing(marked: str, group: Mapping[int, str]) -> list[str]:
    told = re.search(r"-mp(\d{1,3})(?!\d)", marked)
    count = max(max(group) + 1, int(told[1]) if told else 0)
    folder, _, name = marked.rpartition("/")
    name = name if "*" in name else f"{folder.rpartition('/')[2]}/{name}"
    lengths = (len("/".join(filter(None, file.replace("\\", "/").split("/")))) for file in group.values())
    digits = min(lengths) - len(marked) + 1
    return [name.replace("*", f"{rank:0{digits}}") for rank in range(count) if rank not in group]


def _of_ranks(parts: Sequence[Catalog]) -> tuple[Joined, int]:
    holders: dict[str, Catalog] = {}
    shared: dict[str, list[Catalog]] = {}
    for part in parts:
        for name in part.names:
            holders.setdefault(name, part)
            shared.setdefault(name, []).append(part)
    width = _hidden_size(shared)
    pieces: dict[str, tuple[int | None, tuple[Catalog, ...]]] = {}
    for name, catalogs in shared.items():
        different = _different(name, catalogs) if len(catalogs) > 1 else catalogs[:1]
        axis = _axis(name, [part.info(name).shape for part in different], width)
        if len(different) == 1 and axis is not None and len(catalogs) > 1 and _is_constant(name, catalogs[0]):
            different = catalogs  # zeros of a bias are alike in all pieces
        if len(different) > 1:
            pieces[name] = axis, tuple(different)
    if pieces:
        joined = RankCatalog(pieces)
        holders |= dict.fromkeys(pieces, joined)
    return Joined(parts, holders), sum(1 for axis, _ in pieces.values() if axis is not None)


class RankCatalog(Catalog):
    """Tensors whose pieces lie in several open files: each with the axis along which they are joined."""

    kind = "pieces of ranks"

    def __init__(self, pieces: Mapping[str, tuple[int | None, tuple[Catalog, ...]]]) -> None:
        self._pieces = pieces
        first = next(iter(pieces.values()))[1][0]
        self._data = first._data
        self._limits = first._limits
        self._infos = {name: self._joined_info(name) for name in pieces}

    def _joined_info(self, name: str) -> TensorInfo:
        axis, parts = self._pieces[name]
        infos = [part.info(name) for part in parts]
        problem = next((info.problem for info in infos if info.problem), None)
        shape = infos[0].shape
        if axis is None:
            shapes = " + ".join(str(info.shape) for info in infos)
            files = ", ".join(clipped(part._data.name) for part in parts)
            problem = problem or QuantVizError(
                "checkpoint.pieces", name=clipped(name), files=files, shapes=shapes
            )
        else:
            lengths = sum(info.shape[axis] for info in infos)
            shape = (*shape[:axis], lengths, *shape[axis + 1 :])
        return TensorInfo(infos[0].dtype, shape, infos[0].source_type, infos[0].notes, problem)

    def _cutter(self, name: str) -> Callable[[Window], torch.Tensor]:
        axis, parts = self._pieces[name]
        assert axis is not None

        def cut(window: Window) -> torch.Tensor:
            at = window[axis]
            first, last, step = (
                (at, at + 1, 1) if isinstance(at, int) else at.indices(self.info(name).shape[axis])
            )
            pieces = []
            begin = 0
            for part in parts:
                length = part.info(name).shape[axis]
                inside = slice(max(first - begin, 0), max(min(last - begin, length), 0))
                if inside.start < inside.stop:
                    pieces.append(part.cut(name, (*window[:axis], inside, *window[axis + 1 :])))
                begin += length
            # Axes before this one that are held at one place are gone.
            at_axis = sum(1 for index in window[:axis] if isinstance(index, slice))
            joined = torch.cat(pieces, dim=at_axis)
            if isinstance(at, int):
                return joined.select(at_axis, 0)
            return joined.index_select(at_axis, torch.arange(0, joined.shape[at_axis], step))

        return cut

    def stored_bytes(self, name: str) -> int:
        return sum(part.stored_bytes(name) for part in self._pieces[name][1])

    def version_of(self, name: str) -> str:
        return " ".join(part.version_of(name) for part in self._pieces[name][1])

    def close(self) -> None:
        pass


def _different(name: str, parts: Sequence[Catalog]) -> list[Catalog]:
    """Return the files whose piece is not the same as the one before: several ranks may share a piece."""
    distinct = list(parts[:1])
    for part in parts[1:]:
        if not _is_same(name, distinct[-1], part):
            distinct.append(part)
    return distinct


def _is_same(name: str, one: Catalog, other: Catalog) -> bool:
    if one.info(name).shape != other.info(name).shape or one.info(name).dtype != other.info(name).dtype:
        return False
    try:
        pair = one.raw(name), other.raw(name)
        if pair[0] is not None and pair[1] is not None:
            return ends_of(pair[0]) == ends_of(pair[1]) and same_bytes(pair[0], pair[1])
        return torch.equal(one.cut(name), other.cut(name))
    except QuantVizError:
        return False  # it is raised where the tensor is read


def _is_constant(name: str, part: Catalog) -> bool:
    raw = part.raw(name)
    ends = ends_of(raw) if raw is not None else b""
    return ends.count(ends[:1]) == len(ends)


def _hidden_size(shared: Mapping[str, Sequence[Catalog]]) -> int:
    """Return the length of the norms, which every rank has whole; 0 where there is none, or several."""
    lengths = {
        math.prod(parts[0].info(name).shape)
        for name, parts in shared.items()
        if "norm" in name.rpartition(".")[0].rpartition(".")[2] and len(parts[0].info(name).shape) == 1
    }
    return lengths.pop() if len(lengths) == 1 else 0


def _axis(name: str, shapes: Sequence[Shape], width: int) -> int | None:
    """Return the axis along which pieces are joined, by the layer's name; None if unknown.

    `width` is the model's, 0 if unknown.

    >>> _axis("layers.0.attention.wo.weight", [(8, 4), (8, 4)], 8), _axis("q_proj.bias", [(4,), (4,)], 8)
    (1, 0)
    >>> _axis("tok_embeddings.weight", [(99, 4)] * 2, 8), _axis("tok_embeddings.weight", [(50, 8)] * 2, 8)
    (1, 0)
    >>> _axis("x.weight", [(8, 8)] * 2, 8), _axis("q_proj.weight", [(4, 8), (4, 6)], 8)
    (None, None)
    """
    module, _, attribute = name.rpartition(".")
    last = module.rpartition(".")[2]
    near = ".".join(module.split(".")[-2:])
    axis: int | None = None
    if last in _EMBEDDINGS:
        if len(shapes[0]) == 2 and width:
            axis = 0 if shapes[0][1] == width else 1
    elif _BY_OUTPUTS & {last, near}:
        axis = 0
    elif _BY_INPUTS & {last, near} and attribute != "bias":
        axis = 1
    if axis is None or axis >= len(shapes[0]) or any(len(shape) != len(shapes[0]) for shape in shapes):
        return None
    rest = {(*shape[:axis], *shape[axis + 1 :]) for shape in shapes}
    if len(rest) > 1 or (last in _EMBEDDINGS and axis and shapes[0][1] * len(shapes) != width):
        return None
    return axis
