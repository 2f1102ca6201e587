"""The files of a folder that are one model, with the reasons for leaving the others aside.

An index of shards decides. Without one the files of one kind are the model, numbered ones before all others;
a trainer's other files, a second form of the same model and files to load on top of it are not part of it.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from quantviz.errors import Note
from quantviz.pickling import Picklable
from quantviz.sources.files import BY_RANGES, Catalog, is_index, reader_of
from quantviz.sources.files.catalog import NUMBERED
from quantviz.sources.files.file_data import clipped
from quantviz.sources.files.gguf import GgufCatalog
from quantviz.sources.files.npy import NpyCatalog
from quantviz.sources.files.npz import NpzCatalog
from quantviz.sources.files.onnx import OnnxCatalog
from quantviz.sources.files.safetensors import SafetensorsCatalog
from quantviz.sources.files.torch_save import TorchCatalog
from quantviz.sources.stores import addresses
from quantviz.sources.stores.addresses import is_address

#: Readers of a folder's files: the first of which there is a file decides.
IN_FOLDERS: tuple[type[Catalog], ...] = (
    *(SafetensorsCatalog, GgufCatalog, TorchCatalog, OnnxCatalog, NpzCatalog, NpyCatalog),
)
_PATHS_KEPT = 4096
#: Most missing files by the numbers in the names of others; more are damage.
_MOST_PROMISED = 1000
#: Names of adapters, the configuration of one, and that of a pipeline of several models.
_ADAPTERS = re.compile(r"adapter_(model|config)|(.*[-_.])?lora\b", re.ASCII | re.IGNORECASE)
_ADAPTER = "adapter_config.json"
PIPELINE = "model_index.json"
#: Most folders searched for models, and their depth: a cache has snapshots in the second.
_MOST_FOLDERS = 200
_DEEPEST = 3
#: Names of files that are not the model where others are there, with the reason for each.
_NO_MODEL = (
    (
        re.compile(
            r"(optimizer|scheduler|scaler|training_args|trainer_state|rng_state|random_states|optim_states"
            r"|.*_optim_states|grad_scaler|lr_scheduler|ema_optimizer)",
            re.ASCII | re.IGNORECASE,
        ),
        "training",
    ),
    (_ADAPTERS, "adapter"),
    (re.compile(r"mmproj", re.ASCII | re.IGNORECASE), "projector"),
    (re.compile(r".*imatrix", re.ASCII | re.IGNORECASE), "importance"),
    (re.compile(r"consolidated\b", re.ASCII | re.IGNORECASE), "second_form"),
)


@dataclass(frozen=True)
class Aside(Picklable):
    """A file of a folder that is not a part of the model."""

    file: str
    reason: Note
    size: int = 0


@dataclass(frozen=True)
class CheckpointFiles:
    """The files of a checkpoint: an index of shards, or else files of one kind."""

    index: str = ""
    #: Missing ones included, by the numbers in the names of others.
    files: tuple[str, ...] = ()
    aside: tuple[Aside, ...] = ()
    #: Further files of tensors beside an index, which tells its shards once it is read.
    others: tuple[str, ...] = ()


def model_in(listed: Sequence[str]) -> CheckpointFiles:
    """Return the model in a folder of these files; no files where none is one of tensors."""
    readers = [
        reader for reader in IN_FOLDERS if not any(map(is_address, listed)) or reader in BY_RANGES.values()
    ]
    tensors = [path for path in listed if reader_of(name_of(path)) in readers]
    indexes = sorted((path for path in listed if is_index(name_of(path))), key=_order_of_index)
    if indexes:
        aside = tuple(aside_as(path, "other_index", used=indexes[0]) for path in indexes[1:])
        return CheckpointFiles(index=indexes[0], aside=aside, others=tuple(tensors))
    left: list[Aside] = []
    for pattern, reason in _NO_MODEL:
        matched = [path for path in tensors if pattern.match(name_of(path))]
        if len(matched) < len(tensors):  # alone they are the model
            left += (aside_as(path, reason) for path in matched)
            taken = set(matched)
            tensors = [path for path in tensors if path not in taken]
    kind = next((reader for reader in readers if any(reader_of(name_of(t)) is reader for t in tensors)), None)
    others = [path for path in tensors if reader_of(name_of(path)) is not kind]
    tensors = [path for path in tensors if reader_of(name_of(path)) is kind]
    left += (aside_as(path, "other_kind", used=tensors[0]) for path in others)
    numbered = [path for path in tensors if NUMBERED.fullmatch(name_of(path))]
    if numbered and kind is not GgufCatalog:
        taken = set(numbered)
        left += (aside_as(path, "unnumbered", used=numbered[0]) for path in tensors if path not in taken)
        tensors = numbered
    return CheckpointFiles(files=(*tensors, *_missing(tensors)), aside=tuple(left))


def beside_index(files: CheckpointFiles, shards: Sequence[str]) -> tuple[Aside, ...]:
    def reason(name: str) -> str:
        return next((reason for pattern, reason in _NO_MODEL if pattern.match(name)), "not_in_index")

    shard_names = set(shards)
    rest = (path for path in files.others if name_of(path) not in shard_names)
    return tuple(aside_as(path, reason(name_of(path)), used=files.index) for path in rest)


def adapter_in(listed: Sequence[str]) -> str:
    """Return an adapter's file where a folder has its configuration and no model; else ""."""
    names = [name_of(path) for path in listed]
    tensors = [name for name in names if reader_of(name) in IN_FOLDERS or is_index(name)]
    is_adapter = _ADAPTER in names and all(map(_ADAPTERS.match, tensors))
    return tensors[0] if is_adapter and tensors else ""


def models_below(folder: str) -> Iterator[str]:
    """Yield the paths below a folder of folders that hold a model each, as a cache or a pipeline has them."""
    for place, inner, files in itertools.islice(os.walk(folder), _MOST_FOLDERS):
        relative = Path(place).relative_to(folder)
        model = model_in(sorted(os.path.join(place, name) for name in files if not name.startswith(".")))
        is_model = relative.parts and (model.index or model.files)
        if is_model:
            yield relative.as_posix()
        ends = is_model or len(relative.parts) == _DEEPEST
        inner[:] = [] if ends else sorted(name for name in inner if not name.startswith("."))


def siblings(file: str, named: re.Match[str]) -> Iterator[str]:
    """Yield the paths of all numbered files of one model, from the name of one."""
    for number in range(1, int(named["count"]) + 1):
        yield beside(file, f"{named['stem']}-{number:05d}-of-{named['count']}{named['suffix']}")


def stem_of(file: str) -> str:
    """Return the common part of the names of one model's files: the stem and the count of files."""
    named = NUMBERED.fullmatch(name_of(file))
    return f"{named['stem']}{named['count']}" if named else name_of(file)


@functools.lru_cache(maxsize=_PATHS_KEPT)
def beside(file: str, name: str) -> str:
    """Return the path of a name in the same folder; cached, since it is needed for each tensor."""
    return addresses.beside(file, name) if is_address(file) else str(Path(file).parent / name)


def name_of(file: str) -> str:
    return addresses.name_of(file) if is_address(file) else Path(file).name


def aside_as(file: str, reason: str, **params: str) -> Aside:
    """Return a file as it is left aside, for a reason under `[notes.aside]`."""
    names = {name: clipped(name_of(value)) for name, value in (("file", file), *params.items())}
    return Aside(file, Note.of(f"aside.{reason}", **names), size_of(file) or 0)


def size_of(file: str) -> int | None:
    """Return the bytes of a file on disk; None where there is none, or it is on another machine."""
    with contextlib.suppress(OSError):
        return None if is_address(file) else Path(file).stat().st_size
    return None


def _order_of_index(file: str) -> tuple[bool, bool, int, str]:
    """Return the sort key of an index: safetensors first, no second form, shortest name."""
    name = name_of(file).lower()
    return (
        not name.endswith(".safetensors.index.json"),
        name.startswith("consolidated"),
        len(name),
        name,
    )


def _missing(files: list[str]) -> Iterator[str]:
    there = {name_of(file) for file in files}
    # One file of each model gives the names of all its files.
    telling = {stem_of(file): (file, NUMBERED.fullmatch(name_of(file))) for file in files}
    promised = itertools.chain.from_iterable(
        siblings(file, named) for file, named in telling.values() if named
    )
    return itertools.islice((file for file in promised if name_of(file) not in there), _MOST_PROMISED)
