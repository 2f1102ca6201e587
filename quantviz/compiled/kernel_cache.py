"""The folder of compiled kernels, kept between processes and chosen before numba is imported."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from quantviz.compiled.hand_written import plain_pieces
from quantviz.whole_files import own_folder, put_whole


@cache
def has_numba() -> bool:
    """Return whether numba is installed and compiles. Importing it would take half a second."""
    if find_spec("numba") is None or find_spec("llvmlite") is None:
        return False
    # While another thread imports it, it has no settings yet.
    config = getattr(sys.modules.get("numba"), "config", None)
    if config is not None:
        return not config.DISABLE_JIT
    return os.environ.get("NUMBA_DISABLE_JIT", "").strip() in ("", "0")


#: No kernel's module imports these; a test holds that. A wheel has the app in `_app`, a clone beside the
#: package: kernels of one are those of the other.
_ABOVE = ("_app", "browser", "checkpoints", "cli", "export", "figures", "lab", "teaching", "ui")


@cache
def cache_folder() -> Path | None:
    """Return the folder of compiled code; None without a writable one that is this user's alone.

    `QUANTVIZ_CACHE_DIR`, else `XDG_CACHE_HOME/quantviz`, else `~/.cache/quantviz`; in it one a version.
    """
    from importlib.metadata import version

    plain = ("plain", *sorted(plain_pieces())) if plain_pieces() else ()
    return own_folder("-".join(("numba", version("numba"), _digest(), *plain)))


def kept_text(name: str, make: Callable[[], str]) -> str:
    """Return the text of `make`, kept in the same folder; `make` depends on this package's code alone."""
    from importlib.metadata import version

    folder = own_folder("-".join(("texts", version("torch"), _digest())))
    file = folder / f"{name}.txt" if folder else None
    if file is not None and file.is_file():
        return file.read_text(encoding="utf-8")
    made = make()
    if file is not None:
        # On a full disk the next process makes it again.
        with contextlib.suppress(OSError):
            put_whole(file, made)
    return made


@cache
def _digest() -> str:
    return digest_of_code(Path(__file__).parents[1])


def digest_of_code(package: Path) -> str:
    """Return a digest of every module of `package` whose code or constants can reach a kernel.

    A kernel holds the functions it calls and the constants it names, from whichever module. Numba looks only
    at the kernel's own file, so a change of any other would leave old machine code in use.
    """
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package)
        if name.parts[0] not in _ABOVE:
            digest.update(f"{name.as_posix()}\0{path.stat().st_size}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:12]
