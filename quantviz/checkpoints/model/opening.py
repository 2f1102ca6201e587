"""Opening of a checkpoint at a path or an address: a file, an index of shards, a folder, a split GGUF.

    with open_model("model/") as model:
        model.tensors.names, model.aside, model.unread

Files beside one are opened wherever they lie, as in a cache whose names are links: it is the caller's own
disk, not that of a server.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from types import MappingProxyType

import xxhash

from quantviz.checkpoints.model import folders
from quantviz.checkpoints.model.account import Reason
from quantviz.checkpoints.model.folders import Aside, CheckpointFiles, beside, name_of
from quantviz.checkpoints.model.ranks import files_of_ranks, joined_ranks, rank_of
from quantviz.errors import Note, QuantVizError
from quantviz.sources.files import BY_RANGES, Catalog, ShardedCatalog, catalog_of, is_index, reader_of
from quantviz.sources.files.catalog import NUMBERED
from quantviz.sources.files.file_data import FileData, check_kinds, clipped, raw_part
from quantviz.sources.files.gguf import GgufCatalog
from quantviz.sources.files.mapped import ends_of
from quantviz.sources.files.other_formats import other_format_of_folder
from quantviz.sources.files.several import Joined, JoinedGguf
from quantviz.sources.layouts.decoded import ModelTensors, model_tensors, tensors_near
from quantviz.sources.stores import addresses
from quantviz.sources.stores.addresses import is_address
from quantviz.text import visible

#: Errors of a store for a place that is no folder, or that it cannot list.
_NO_FOLDER = ("store.no_list", "store.unknown_kind")
#: Errors of parts that another part's header lists.
_OTHER_PARTS = ("checkpoint.part_of", "checkpoint.parts_of")
_MOST_PARTS = 1000
_FOLDERS_NAMED = 6
#: Elements above which a tensor is not like another by chance: norms are all ones in every file.
_TELLING = 256


@dataclass(frozen=True, eq=False)
class OpenModel:
    """The tensors of one model while its files are open, and the other files beside them."""

    tensors: ModelTensors
    files: Mapping[str, str]
    aside: tuple[Aside, ...] = ()
    #: Missing tensors of the index, by name, with their file and the reason.
    unread: Mapping[str, tuple[str, QuantVizError]] = field(default_factory=lambda: MappingProxyType({}))
    lost: tuple[Lost, ...] = ()
    #: Bytes of all tensors of the index; None if unknown.
    whole_bytes: int | None = None
    #: Tensors that the index does not name, or that an earlier file has.
    strays: tuple[Stray, ...] = ()
    #: Notes on files of ranks, whose pieces are joined; the file of their tensors is the checkpoint itself.
    of_ranks: tuple[Note, ...] = ()
    #: Every tensor with its file in the order of the index, or of the files, missing ones included.
    order: tuple[tuple[str, str], ...] = ()

    def in_order(self, places: Iterable[tuple[str, str]]) -> list[int]:
        """Return the numbers of (file, tensor) pairs in the checkpoint's order."""
        ranks = {place: rank for rank, place in enumerate(self.order)}
        listed = [ranks.get(place, len(ranks)) for place in places]
        return sorted(range(len(listed)), key=listed.__getitem__)

    def check_names(self) -> None:
        """Raise a `QuantVizError` where two files have a tensor of the same name and no index decides."""
        for stray in self.strays:
            if stray.first:
                first = clipped(name_of(stray.first))
                second = clipped(name_of(stray.file))
                raise QuantVizError("audit.twice", name=clipped(stray.name), first=first, second=second)


@dataclass(frozen=True, eq=False)
class Lost:
    """A file of the model that is missing or cannot be opened."""

    #: Its name; of a part that another file's header lists, that file's with the part's number.
    name: str
    #: Its path; for such a part one where nothing is.
    file: str
    reason: QuantVizError
    #: Whether an index names its tensors.
    is_named: bool = False


@dataclass(frozen=True, eq=False)
class Stray:
    """A tensor in a file of the model that is not taken for one of its tensors."""

    name: str
    file: str
    catalog: Catalog
    #: A note where the index decides; an error where two tensors of one name are ambiguous.
    reason: Reason
    #: The earlier file with a tensor of that name, where the name is ambiguous.
    first: str = ""

    @property
    def size(self) -> int:
        return self.catalog.stored_bytes(self.name)


def open_file(file: str) -> closing[Catalog]:
    """Open one file of tensors, or an index of shards; `QuantVizError` if it is damaged, unknown or beyond
    the limits.
    """
    return closing(_opened(file))


@contextmanager
def open_model(path: str | PurePath) -> Iterator[OpenModel]:
    """Open one model, in however many files it lies, while the `with` block lasts.

    Missing, damaged and ignored files are listed in it, for the caller to account for.

    Args:
        path: A file of any reader, an index of shards, a folder with either, or any part of a split .gguf. Or
            the address of one of these.

    Raises:
        QuantVizError: Nothing can be opened at `path`, or a folder holds several models.
    """
    files = found_at(path)
    with ExitStack() as stack:
        if files.index:
            yield _of_index(files, stack)
        else:
            yield _of_files(files, stack, str(path))


@contextmanager
def open_near(path: str | PurePath, name: str | None) -> Iterator[Catalog]:
    """Open a checkpoint for one tensor: of an index only shards that hold tensors near it, all without a
    name. Errors are those of `open_checkpoint`.
    """
    files = found_at(path)
    if not files.index:
        with open_checkpoint(path) as tensors:
            yield tensors
        return
    with open_file(files.index) as index:
        yield index if name is None else tensors_near(index, name)


@contextmanager
def open_checkpoint(path: str | PurePath) -> Iterator[ModelTensors]:
    """Open all tensors of a checkpoint, its quantized weights decoded.

    Raises:
        QuantVizError: Nothing can be opened at `path`, a folder holds several models, a file is missing, or
            two files have a tensor of the same name and no index decides.
    """
    with open_model(path) as model:
        for problem in (*(each for _, each in model.unread.values()), *(each.reason for each in model.lost)):
            # Any one part of a split file may be read by itself.
            if problem.key not in _OTHER_PARTS:
                raise problem.again()
        model.check_names()
        yield model.tensors


def found_at(path: str | PurePath) -> CheckpointFiles:
    """Return the files of the checkpoint at a path or an address; `QuantVizError` if there is none."""
    check_kinds(path, None)
    place = str(path)
    listed = _files_in(place)
    if listed is None:
        if is_index(name_of(place)):
            return CheckpointFiles(index=place)
        return CheckpointFiles(files=_split(place) if _is_gguf(place) else files_of_ranks(place))
    if adapter := folders.adapter_in(listed):
        raise QuantVizError("checkpoint.adapter", folder=clipped(name_of(place)), file=clipped(adapter))
    files = folders.model_in(listed)
    if not files.index and not files.files:
        files = folders.model_in(_in_folders_of_ranks(place))
    if not files.index and not files.files:
        names = [name_of(path_below) for path_below in (*listed, place.rstrip("/"))]
        if piece := next(filter(None, map(raw_part, names)), None):
            raise piece
        if other := other_format_of_folder(names[-1], names[:-1]):
            raise QuantVizError(other.key, file=clipped(names[-1]))
        _refuse_models_below(place, names)
        readers = [
            reader for reader in folders.IN_FOLDERS if not is_address(place) or reader in BY_RANGES.values()
        ]
        raise QuantVizError(
            "checkpoint.empty_folder",
            folder=clipped(name_of(place)),
            known=", ".join(suffix for reader in readers for suffix in reader.suffixes),
        )
    return files


def _refuse_models_below(folder: str, names: Sequence[str]) -> None:
    """Raise a `QuantVizError` that names the folders below that hold models, where there are any."""
    if is_address(folder):
        return
    # The files of a cache of Hugging Face lie under their hashes; its folders of links have their names.
    of_cache = Path(folder).resolve()
    top = (
        of_cache.parent if of_cache.name == "blobs" and (of_cache.parent / "snapshots").is_dir() else of_cache
    )
    below = list(folders.models_below(str(top)))
    if below:
        more = len(below) - _FOLDERS_NAMED
        raise QuantVizError(
            "checkpoint.pipeline" if folders.PIPELINE in names else "checkpoint.folders",
            folder=clipped(name_of(folder)),
            count=len(below),
            folders=", ".join(visible(str(top / each)) for each in below[:_FOLDERS_NAMED])
            + (" …" if more > 0 else ""),
        )


def known_as(path: str | PurePath) -> str:
    """Return the key of a checkpoint's results: its path, or its address without the signature.

    A folder is known by its index, or by the one file that is its model: it has the same results by either
    name. A link keeps its name: in a cache of links the files themselves have meaningless names.
    """
    if isinstance(path, str) and is_address(path):
        return addresses.shown(path)
    location = Path(path)
    if not location.is_dir():
        return str(location.parent.resolve() / location.name)
    try:
        files = found_at(location.resolve())
    except (QuantVizError, OSError):  # a scan raises it
        files = CheckpointFiles()
    if files.index:
        return files.index
    return files.files[0] if len(files.files) == 1 else str(location.resolve())


def check_part(file: str, catalog: Catalog) -> None:
    named = NUMBERED.fullmatch(name_of(file))
    if not isinstance(catalog, GgufCatalog) or named is None:
        return
    split = catalog.split
    if split is not None and split != (int(named["number"]), int(named["count"])):
        number, count = split
        raise QuantVizError("checkpoint.other_part", file=clipped(name_of(file)), number=number, count=count)


def _of_index(model: CheckpointFiles, stack: ExitStack) -> OpenModel:
    """Open the files of an index; tensors of a damaged or missing shard are listed all the same."""
    index = stack.enter_context(open_file(model.index))
    if not isinstance(index, ShardedCatalog):  # in spite of its name
        return _of_files(CheckpointFiles(files=(model.index,)), stack, model.index)
    shards: dict[str, Catalog] = {}
    failed: dict[str, QuantVizError] = {}
    for name in index.shards:
        try:
            shards[name] = index.shard(name)
        except QuantVizError as problem:
            failed[name] = problem
    holders: dict[str, Catalog] = {}
    files: dict[str, str] = {}
    unread: dict[str, tuple[str, QuantVizError]] = {}
    for name in index.names:
        shard = index.shard_of(name)
        file = beside(model.index, shard)
        if shard in failed:
            unread[name] = file, failed[shard]
        elif name not in shards[shard]:
            unread[name] = file, index.lacks(name)
        else:
            holders[name] = shards[shard]
            files[name] = file
    named = set(index.names)
    strays = tuple(
        Stray(name, beside(model.index, shard), catalog, _of_stray(index, name, shard, name in named))
        for shard, catalog in shards.items()
        for name in catalog.names
        if name not in unread and (name not in named or index.shard_of(name) != shard)
    )
    aside = (*model.aside, *folders.beside_index(model, index.shards))
    apart = {name: index.shard_of(name) for name in unread}
    tensors = model_tensors(Joined((index, *shards.values()), holders, apart))
    order = tuple((beside(model.index, index.shard_of(name)), name) for name in index.names)
    lost = tuple(Lost(name, beside(model.index, name), why, is_named=True) for name, why in failed.items())
    return OpenModel(
        tensors, files, aside, MappingProxyType(unread), lost, index.whole_bytes, strays, order=order
    )


def _of_files(model: CheckpointFiles, stack: ExitStack, path: str) -> OpenModel:
    """Open files without an index; one that cannot be opened stands for its tensors."""
    folder = clipped(name_of(path))
    files = model.files
    parts: dict[str, Catalog] = {}
    lost: list[Lost] = []
    for file in files:
        try:
            part = stack.enter_context(open_file(file))
            check_part(file, part)
            parts[file] = part
        except QuantVizError as problem:
            if len(files) == 1:
                raise
            lost.append(Lost(name_of(file), file, problem))
    parts, further = _split_parts(parts, lost)
    if _is_gguf(files[0]) and further is None and len({folders.stem_of(file) for file in files}) > 1:
        raise QuantVizError("audit.folder", folder=folder, found=", ".join(map(name_of, files)))
    lost += further or ()
    aside = (*model.aside, *_copies(parts))
    for left_out in aside:
        parts.pop(left_out.file, None)
    if not parts:
        raise lost[0].reason.again()
    if not any(part.names for part in parts.values()):
        raise QuantVizError("file.empty", file=clipped(name_of(files[0])))
    whole, notes, missing = joined_ranks(parts)
    lost += [Lost(name, name, QuantVizError("file.missing", file=clipped(name))) for name in missing]
    where: dict[str, str] = {}
    strays: list[Stray] = []
    for file, part in whole.items():
        for name in filter(where.__contains__, part.names):
            first = where[name]
            names = {"file": clipped(name_of(file)), "first": clipped(name_of(first))}
            why = QuantVizError("checkpoint.duplicate", name=clipped(name), **names)
            strays.append(Stray(name, file, part, why, first))
        where |= {name: file for name in part.names if name not in where}
    if notes:
        where = dict.fromkeys(where, path)
    tensors = model_tensors(_joined(tuple(whole.values())))
    order = tuple(
        (file, name) for file in files for name in (whole[file].names if file in whole else (name_of(file),))
    )
    return OpenModel(
        tensors, where, aside, lost=tuple(lost), strays=tuple(strays), of_ranks=notes, order=order
    )


def _split_parts(
    parts: dict[str, Catalog], lost: Sequence[Lost]
) -> tuple[dict[str, Catalog], list[Lost] | None]:
    """Return the parts of one split .gguf in their order, whatever their names, and those that are missing by
    their headers; None in place of these where the files are not parts of one.

    `lost` are missing files by the names of others.
    """
    splits = {
        file: part.split for file, part in parts.items() if isinstance(part, GgufCatalog) and part.split
    }
    counts = {count for _, count in splits.values()}
    numbers = {number for number, _ in splits.values()}
    if len(counts) != 1 or not len(splits) == len(numbers) == len(parts):
        return parts, None
    (count,) = counts
    named = (NUMBERED.fullmatch(each.name) for each in lost)
    there = numbers.union(int(match["number"]) for match in named if match)
    file = min(splits, key=lambda part_path: splits[part_path])
    part = parts[file]
    assert isinstance(part, GgufCatalog)
    names = {"file": clipped(name_of(file)), "number": splits[file][0], "count": count}
    tensors = part.metadata.get("split.tensors.count")
    key = "part_of" if tensors is None else "parts_of"
    missing = [number for number in range(1, min(count, _MOST_PARTS) + 1) if number not in there]
    further = [
        Lost(
            f"{name_of(file)} ({number}/{count})",
            f"{file} ({number}/{count})",
            QuantVizError(f"checkpoint.{key}", **names, missing=number, tensors=tensors),
        )
        for number in missing
    ]
    return dict(sorted(parts.items(), key=lambda part_path: splits[part_path[0]])), further


def _joined(parts: Sequence[Catalog]) -> Catalog:
    if len(parts) == 1:
        return parts[0]
    of_gguf = [part for part in parts if isinstance(part, GgufCatalog)]
    return JoinedGguf(of_gguf) if len(of_gguf) == len(parts) else Joined(parts)


def _copies(parts: Mapping[str, Catalog]) -> Iterator[Aside]:
    """Yield the files that repeat the tensors of another one under other names: the model is the file of more
    tensors, of the shorter name.

    Two tensors of one name are ambiguous, and no copies.
    """
    if len(parts) < 2 or any(NUMBERED.fullmatch(name_of(file)) for file in parts):
        return
    prints = {file: set(_prints(part)) for file, part in parts.items()}
    in_order = sorted(parts, key=lambda file: (-len(prints[file]), len(name_of(file)), name_of(file)))
    kept: list[str] = []
    for file in in_order:
        names = set(parts[file].names)
        whole = next(
            (
                each
                for each in kept
                if prints[file] and prints[file] <= prints[each] and names.isdisjoint(parts[each].names)
            ),
            None,
        )
        if whole is None:
            kept.append(file)
        else:
            yield folders.aside_as(file, "copy", used=whole)


def _prints(part: Catalog) -> Iterator[str]:
    """Yield a fingerprint of each tensor's content, from its first and last bytes; small ones have none."""
    for name in part.names:
        info = part.info(name)
        raw = None if info.problem or info.count < _TELLING else part.raw(name)
        if raw is None:
            continue
        ends = ends_of(raw)
        if any(ends) and ends.count(ends[:1]) < len(ends):
            yield f"{info.dtype} {info.shape} {xxhash.xxh3_128_hexdigest(ends)}"


def _of_stray(index: ShardedCatalog, name: str, shard: str, is_named: bool) -> Note:
    if not is_named:
        return Note.of("checkpoint.unnamed", name=clipped(name), shard=clipped(shard))
    used = index.shard_of(name)
    return Note.of("checkpoint.also_in", name=clipped(name), shard=clipped(shard), used=clipped(used))


def _opened(file: str) -> Catalog:
    if not is_address(file):
        return catalog_of(FileData(Path(file), Path(file).name))
    from quantviz.sources.stores.store import problem_at
    from quantviz.sources.stores.store_data import StoreData, reader_at, reader_in
    from quantviz.sources.stores.web import store_of

    data = StoreData(file, store_of(file))
    # The content decides, as that of a local file does; where it is ambiguous, the name does.
    reader = reader_in(data) or reader_at(file)
    if reader is None:
        data.close()
        raise raw_part(name_of(file)) or problem_at(file, "unknown_kind")
    return catalog_of(data, reader=reader)


def _in_folders_of_ranks(folder: str) -> list[str]:
    if is_address(folder):
        return []
    ranks = (each for each in sorted(Path(folder).iterdir()) if each.is_dir() and rank_of(f"{each.name}/x"))
    return [file for each in ranks for file in _files_in(str(each)) or ()]


def _is_gguf(file: str) -> bool:
    return reader_of(name_of(file)) is GgufCatalog


def _files_in(folder: str) -> list[str] | None:
    """Return the sorted files of a folder; None where it is a file."""
    if not is_address(folder):
        if not Path(folder).is_dir():
            return None
        found = (each for each in Path(folder).iterdir() if each.is_file())
        return sorted(str(each) for each in found if not each.name.startswith("."))
    from quantviz.sources.stores.store_data import reader_at
    from quantviz.sources.stores.web import store_of

    if reader_at(folder) is not None:
        return None
    try:
        names = store_of(folder).names(folder)
    except QuantVizError as problem:
        # It may be a file without a suffix of its format.
        if problem.key in _NO_FOLDER:
            return None
        raise
    return [addresses.inside(folder, name) for name in names if not name.startswith(".")]


def _split(file: str) -> tuple[str, ...]:
    """Return the paths of all parts of a split .gguf; the file alone where it is whole, or cannot be read."""
    named = NUMBERED.fullmatch(name_of(file))
    if named is None:
        return (file,)
    try:
        with open_file(file) as catalog:
            count = catalog.split[1] if isinstance(catalog, GgufCatalog) and catalog.split else 0
    except QuantVizError:
        return (file,)  # its reader raises the reason
    believed = count == int(named["count"]) <= _MOST_PARTS
    return tuple(folders.siblings(file, named)) if believed else (file,)
