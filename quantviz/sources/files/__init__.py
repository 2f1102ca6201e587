"""Tensors in files: one reader a format, one interface.

    with open_tensors("model.safetensors") as catalog:
        window = catalog.load("layer.weight", (slice(0, 512), slice(0, 512)))

A format is added here: one subclass of `Catalog` in a file of its own, in `CATALOGS`. The content decides the
format, whatever the file's name; only texts need a name. Every file counts as hostile until it is read: its
declared sizes are checked before anything is allocated, and nothing in it is run.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from types import MappingProxyType
from typing import NoReturn

from quantviz.errors import QuantVizError
from quantviz.sources.files.catalog import Catalog as Catalog
from quantviz.sources.files.catalog import Loaded as Loaded
from quantviz.sources.files.catalog import TensorInfo as TensorInfo
from quantviz.sources.files.file_data import FileData, check_kinds, clipped, cut_short, raw_part, size_text
from quantviz.sources.files.gguf import GgufCatalog
from quantviz.sources.files.json_lists import JsonCatalog
from quantviz.sources.files.npy import NpyCatalog
from quantviz.sources.files.npz import NpzCatalog
from quantviz.sources.files.onnx import OnnxCatalog
from quantviz.sources.files.other_formats import answer_in_place, other_format, other_format_named, stand_in
from quantviz.sources.files.safetensors import SafetensorsCatalog
from quantviz.sources.files.sharded import ShardedCatalog as ShardedCatalog
from quantviz.sources.files.sharded import ShardedTorch
from quantviz.sources.files.table import TableCatalog, looks_like_numbers
from quantviz.sources.files.tflite import TfliteCatalog
from quantviz.sources.files.torch_save import TorchCatalog
from quantviz.sources.files.zips import is_cut_zip
from quantviz.sources.limits import Limits as Limits

#: The readers, in the order in which they try bytes without a name: text last, because anything may be text.
CATALOGS: tuple[type[Catalog], ...] = (
    *(NpyCatalog, NpzCatalog, SafetensorsCatalog, GgufCatalog, TfliteCatalog, OnnxCatalog, TorchCatalog),
    *(ShardedTorch, ShardedCatalog, JsonCatalog, TableCatalog),
)
#: No beginning marks a text for sure.
_OF_TEXTS = (ShardedTorch, ShardedCatalog, JsonCatalog, TableCatalog)
#: Where two suffixes fit a name, the first counts.
READERS: Mapping[str, type[Catalog]] = MappingProxyType(
    {suffix: reader for reader in CATALOGS for suffix in reader.suffixes}
)
#: Readers of files on another machine: they need only some of a file.
BY_RANGES: Mapping[str, type[Catalog]] = MappingProxyType(
    {
        suffix: reader
        for reader in (ShardedCatalog, SafetensorsCatalog, GgufCatalog)
        for suffix in reader.suffixes
    }
)


def reader_of(filename: str) -> type[Catalog] | None:
    """>>> reader_of("Model.ONNX").kind, reader_of("notes.md")
    ('ONNX', None)
    """
    name = filename.lower()
    return next((reader for suffix, reader in READERS.items() if name.endswith(suffix)), None)


def is_index(filename: str) -> bool:
    """Return whether a name is that of an index of shards.

    >>> is_index("model.safetensors.index.json"), is_index("pytorch_model.bin.index.json"), is_index("x.json")
    (True, True, False)
    """
    reader = reader_of(filename)
    return reader is not None and issubclass(reader, ShardedCatalog)


class open_tensors:
    """The tensors of a file, on disk or uploaded, while the `with` block lasts.

    Loaded tensors stay valid afterwards.

    Args:
        path_or_bytes: The path of a file, or its content.
        filename: The name of an upload, which gives its format; without any name the content decides.
        limits: The limits of a file; by default those of the environment.
        stored_as: The dtype of arrays of a .npy or .npz whose header has only the bytes of an element, as for
            FP8 of ml_dtypes: "float8_e4m3fn".

    Raises:
        QuantVizError: The file is missing, unknown, damaged, beyond `limits`, or not of the format of its
            name (keys `file.*`, and `typed.*` for places in text).

    >>> with open_tensors(b"1.5,2\\n3,4", "numbers.csv") as catalog:
    ...     catalog.names, catalog.info("numbers").shape, catalog.load("numbers", (0,))
    (('numbers',), (2, 2), tensor([1.5000, 2.0000]))
    """

    def __init__(
        self,
        path_or_bytes: str | PurePath | bytes | bytearray | memoryview,
        filename: str | None = None,
        *,
        limits: Limits | None = None,
        stored_as: str = "",
    ) -> None:
        check_kinds(path_or_bytes, filename)
        self._arguments = path_or_bytes, filename, limits
        self._stored_as = stored_as
        self._open: list[Catalog] = []

    def __enter__(self) -> Catalog:
        path_or_bytes, filename, limits = self._arguments
        data = FileData(path_or_bytes, filename)
        data.stored_as = self._stored_as
        self._open.append(catalog_of(data, limits=limits))
        return self._open[-1]

    def __exit__(self, *_: object) -> None:
        self._open.pop().close()

    def __repr__(self) -> str:
        path_or_bytes, filename, _ = self._arguments
        given = filename or (
            str(path_or_bytes) if isinstance(path_or_bytes, str | PurePath) else f"{len(path_or_bytes)} bytes"
        )
        return f"<open_tensors({clipped(given)!r}): use it in a with block>"

    def __getattr__(self, name: str) -> NoReturn:
        if not name.startswith("_") and hasattr(Catalog, name):
            raise QuantVizError("file.not_entered", name=name)
        raise AttributeError(name)


def catalog_of(
    data: FileData, *, limits: Limits | None = None, reader: type[Catalog] | None = None
) -> Catalog:
    """Return the tensors of an open file, which is closed if it cannot be read.

    Args:
        data: The file.
        limits: By default those of the environment.
        reader: By default the one for the file's name and content.

    Raises:
        QuantVizError: It is damaged, unknown, beyond `limits`, or not of the format of its name.
    """
    limits = limits or Limits.of_environment()
    try:
        if data.size > limits.file_bytes:
            raise data.beyond("too_large", limits, "file_bytes", data.size)
        if not data.size:
            raise data.error("empty_file")
        if reader:
            reader.check_kind(data)
        elif problem := stand_in(data):
            raise problem
        return (reader or _reader(data))(data, limits)
    except QuantVizError:
        data.close()
        raise


def _reader(data: FileData) -> type[Catalog]:
    """Go by the content; by the name where the content is text, which may be any."""
    other = other_format_named(data.name)
    if other and other.id == "distcp":  # its content is several PyTorch files in a row
        raise other.problem(data)
    inside = next((reader for reader in CATALOGS if reader.recognises(data)), None)
    named = reader_of(data.name)
    if inside and inside not in _OF_TEXTS:
        return inside
    if problem := raw_part(data.name) or _unread(data):
        raise problem
    if named:
        if named in _OF_TEXTS and named.recognises(data):
            return named
        raise (named not in _OF_TEXTS and answer_in_place(data)) or data.error("damaged", kind=named.kind)
    if inside and (data.name == "?" or inside is not TableCatalog or looks_like_numbers(data)):
        return inside
    raise data.error("unknown_kind", known=", ".join(READERS))


def _unread(data: FileData) -> QuantVizError | None:
    for reader in CATALOGS:
        wanted = reader.wanted(data)
        if wanted is not None:
            return cut_short(data, wanted)
    if is_cut_zip(data):
        return data.error("cut_in_list", there=size_text(data.size))
    other = other_format(data)
    return other.problem(data) if other else None


def cut_out_snippet(filename: str, name: str = "layer.weight") -> str:
    """Return Python that cuts the first 512 rows of a tensor out of a file too large to upload.

    Raises:
        QuantVizError: The suffix has no reader.

    >>> print(cut_out_snippet("model.safetensors", "layer.weight"))
    from safetensors.torch import safe_open, save_file
    with safe_open('model.safetensors', "pt") as file: x = file.get_slice('layer.weight')[:512]
    save_file({"cut_out": x.contiguous()}, "cut_out.safetensors")
    """
    reader = reader_of(filename)
    if reader is None:
        raise QuantVizError("file.unknown_kind", file=filename, known=", ".join(READERS))
    return reader.snippet.format(file=filename, name=name)
