"""A file's tensor as the app opens it: below the folder that the app offers, or on a hub that it may open."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from quantviz.cli.tensors import name_in, written_source
from quantviz.errors import QuantVizError
from quantviz.schemes.orientation import Orientation

if TYPE_CHECKING:
    from quantviz.sources import Source
    from quantviz.sources.files import Catalog


class OfferedFolder(NamedTuple):
    """The folder that an app must offer to open a file."""

    folder: Path
    #: The file's path below it, with "/".
    below: str
    #: Whether the environment names the folder already.
    known: bool


def offered(path: Path) -> OfferedFolder:
    """Return the folder that an app must offer to open a file, or all files of a folder.

    It is that of the file, unless the file lies below the folder that the environment names. Of a model in a
    cache of links, whose files lie elsewhere under meaningless names, it is the model's, which holds the
    links and the files; of any other link it is the folder of its target.
    """
    from quantviz.sources.local import data_folder

    known = data_folder()
    there = Path(os.path.abspath(path))
    real = path.resolve()
    linked = there.parent.resolve() / there.name
    for own in (linked, real):
        if known and own.is_relative_to(known) and real.is_relative_to(known):
            below = own.relative_to(known)
            if not any(part.startswith(".") for part in below.parts):
                return OfferedFolder(known, below.as_posix(), True)
    of_model = _model_of_cache(linked)
    if of_model:
        return OfferedFolder(of_model, linked.relative_to(of_model).as_posix(), False)
    folder = real if path.is_dir() else real.parent
    return OfferedFolder(folder, real.relative_to(folder).as_posix(), False)


def _model_of_cache(path: Path) -> Path | None:
    """Return the folder of the model in Hugging Face's cache that a path lies in, or None.

    Its `snapshots/<commit>` holds links to its `blobs`.
    """
    for folder in path.parents:
        if folder.name == "snapshots" and (folder.parent / "blobs").is_dir():
            return folder.parent
    return None


def lab_source(
    file: str, tensor: str | None, outputs_axis: Orientation | None = None, *, first: bool = False
) -> tuple[Source, str | None]:
    """Return a tensor's source for a link of the Lab, and the folder that the app must offer, if any.

    It is seen as outputs × inputs, by the file's own order unless the axis of the outputs is given. Where no
    tensor is named, it is the only one in the file, or with `first` the first that can be read. Only
    addresses on a hub in `QUANTVIZ_HUBS` are opened.

    Raises:
        QuantVizError: As from `open_tensors`.
    """
    from quantviz.sources import LocalTensor
    from quantviz.sources.files import open_tensors
    from quantviz.sources.layouts.decoded import model_tensors
    from quantviz.sources.matrix import as_opened
    from quantviz.sources.stores.addresses import is_address

    source = written_source(file)
    if source:
        return as_opened(source, outputs_axis or Orientation()), None
    if is_address(file):
        hub, orientation = _hub_source(file, tensor, first)
        return as_opened(hub, outputs_axis or orientation), None
    with open_tensors(file) as opened:
        catalog = model_tensors(opened)
        name = _name(catalog, file, tensor, first)
        place = offered(Path(file))
        opened_as = as_opened(
            LocalTensor.of(place.below, name, catalog), outputs_axis or catalog.orientation(name)
        )
        return opened_as, None if place.known else str(place.folder)


def _hub_source(address: str, tensor: str | None, first: bool) -> tuple[Source, Orientation]:
    from quantviz.sources import HubTensor
    from quantviz.sources.hubs.addresses import parse_address
    from quantviz.sources.hubs.hosts import HUBS, Hosts
    from quantviz.sources.hubs.models import find_model, published_catalog
    from quantviz.sources.stores.addresses import shown

    try:
        place = parse_address(shown(address), Hosts.of_environment())
        if not place.file:
            raise QuantVizError("hub.address", got=shown(address), variable=HUBS)
    except QuantVizError as problem:
        if problem.key == "hub.setting":
            raise
        raise QuantVizError("cli.not_on_a_hub", got=shown(address), variable=HUBS) from None
    model = find_model(place)
    catalog = published_catalog(model, place.file)
    name = _name(catalog, shown(address), tensor, first)
    return HubTensor.of(place.at(model.commit), name), catalog.orientation(name)


def _name(catalog: Catalog, file: str, tensor: str | None, first: bool) -> str:
    infos = ((name, catalog.info(name)) for name in catalog.model_names)
    readable = (name for name, info in infos if not info.problem and info.shape)
    return next(readable, catalog.names[0]) if first and tensor is None else name_in(catalog, file, tensor)
