"""Where a checkpoint's files are, in a folder or at an address, and how one of them is opened."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from quantviz.sources.files import Catalog, open_tensors
from quantviz.sources.limits import Limits
from quantviz.sources.stores import addresses
from quantviz.sources.stores.addresses import is_address


@contextmanager
def open_file(file: str) -> Iterator[Catalog]:
    """Open a file of tensors while the `with` block lasts.

    Raises:
        QuantVizError: It cannot be opened or read, is damaged, unknown, or beyond the limits.
    """
    limits = Limits.of_environment()
    if not is_address(file):
        with open_tensors(file, limits=limits) as catalog:
            yield catalog
        return
    from quantviz.sources.stores.store_data import open_address

    catalog = open_address(file, limits)
    try:
        yield catalog
    finally:
        catalog.close()


def beside(file: str, name: str) -> str:
    """Return the file of that name in the same folder."""
    return addresses.beside(file, name) if is_address(file) else str(Path(file).parent / name)


def name_of(file: str) -> str:
    """Return a file's name without its folders."""
    return addresses.name_of(file) if is_address(file) else Path(file).name


def files_in(folder: str) -> list[str] | None:
    """Return the files of a folder by their names; none where it is a file.

    Raises:
        QuantVizError: An address is of no kind of file that is read, and its store lists nothing there.
    """
    if not is_address(folder):
        if not Path(folder).is_dir():
            return None
        found = (each for each in Path(folder).iterdir() if each.is_file())
        return sorted(str(each) for each in found if not each.name.startswith("."))
    from quantviz.sources.stores.store import store_of
    from quantviz.sources.stores.store_data import reader_at

    if reader_at(folder) is not None:
        return None
    names = store_of(folder).names(folder)
    return [addresses.inside(folder, name) for name in names if not name.startswith(".")]
