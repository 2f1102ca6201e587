"""`quantviz serve`: run the app, from an installed package as from a clone."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

import click

from quantviz.cli.output import say
from quantviz.errors import QuantVizError
from quantviz.streaming.kernel_access import READY_FIRST, is_kept

#: Packages that the app imports beyond those of the core.
_NEEDED = ("pandas", "PIL", "plotly", "safetensors", "segno", "streamlit")
#: Streamlit's port, and how many after it are tried where it is taken.
_PORT = 8501
_PORTS = 100


def app_file() -> Path:
    """Return the path of the app: inside an installed package, else at the top of the clone.

    Raises:
        QuantVizError: Neither is there.
    """
    package = Path(__file__).parents[1]
    for path in (package / "_app" / "app.py", package.parent / "app.py"):
        if path.is_file():
            return path
    raise QuantVizError("app_not_found", folder=package)


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[FILE] [STREAMLIT OPTIONS]...")
@click.option("-t", "--tensor", help="The tensor of FILE to open. Default: the first that can be read.")
@click.option("-s", "--scheme", help="The scheme to open it under: a recipe or a text form.")
def serve(arguments: tuple[str, ...], tensor: str | None, scheme: str | None) -> None:
    """Open the app in the browser, on a file if one is given.

    FILE is a file of tensors, a folder of them, or the address of a file on a hub that QUANTVIZ_HUBS lists.
    The app then offers its folder, to this computer alone
    unless --server.address says otherwise, and the browser opens the Lab on it. The server answers once all
    is imported and compiled. Other options are Streamlit's own, such as --server.port 8502.
    """
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise QuantVizError("app_needs", missing=", ".join(missing))
    file, options = _divided(arguments)
    environment = dict(os.environ)
    if file is not None:
        environment, options = _opening(file, tensor, scheme, options)
    elif tensor or scheme:
        raise click.UsageError("--tensor and --scheme need FILE.")
    environment = {READY_FIRST: "1", **environment}
    if environment[READY_FIRST] == "1" and not is_kept():
        say("cli.compiling")
    command = [sys.executable, "-m", "streamlit", "run", str(app_file()), *options]
    if os.name == "posix":
        # Takes this process's place, so that a signal sent to it ends the server.
        os.execve(sys.executable, command, environment)
    sys.exit(subprocess.call(command, env=environment))


def _divided(arguments: Sequence[str]) -> tuple[str | None, list[str]]:
    """Return the file among the arguments, and Streamlit's options: each of those has a value.

    >>> _divided(["--server.port", "8502", "a.npy", "--server.headless=true"])
    ('a.npy', ['--server.port', '8502', '--server.headless=true'])
    """
    files = []
    options = []
    rest = iter(arguments)
    for each in rest:
        if not each.startswith("-"):
            files.append(each)
            continue
        options.append(each)
        value = None if "=" in each else next(rest, None)
        options += [] if value is None else [value]
    if len(files) > 1:
        raise click.UsageError(f"Got unexpected extra argument ({files[1]})")
    return (files[0] if files else None), options


def _opening(
    file: str, tensor: str | None, scheme: str | None, options: list[str]
) -> tuple[dict[str, str], list[str]]:
    """Return the environment and Streamlit's options for a file, and start the thread that opens the Lab."""
    from quantviz.cli.lab_source import lab_source, offered
    from quantviz.cli.link import lab_address
    from quantviz.sources.hubs.hosts import DISABLED
    from quantviz.sources.local import FOLDER

    path = Path(file)
    source = None
    folder = None
    if path.is_dir():
        place = offered(path)
        folder = None if place.known else str(place.folder)
    else:
        source, folder = lab_source(file, tensor, first=True)
    environment = {**os.environ, **({FOLDER: folder} if folder else {})}
    port = _setting("server.port", options)
    more = []
    if port is None:
        port = str(_free_port())
        more += ["--server.port", port]
    host = _setting("server.address", options)
    if host is None:
        more += ["--server.address", "localhost"]
        environment = {DISABLED: "0", **environment}  # nobody else reads with this user's login
    quiet = (_setting("server.headless", options) or "").lower() in ("true", "1", "yes")
    # Streamlit would open its first page: the Lab is opened in its place, once the server answers.
    more += [] if quiet else ["--server.headless", "true"]
    base = (_setting("server.baseUrlPath", options) or "").strip("/")
    everywhere = host in (None, "", "0.0.0.0", "::")
    app = f"http://{'localhost' if everywhere else host}:{port}/{base}"
    address = f"{app.rstrip('/')}/lab" if source is None else lab_address(app, source, scheme)
    health = f"{app.rstrip('/')}/_stcore/health"
    helper = [sys.executable, "-m", "quantviz.cli.opening", address, health]
    subprocess.Popen([*helper, *([] if quiet else ["--open"])], stdin=subprocess.DEVNULL)
    return environment, _without("server.headless", options, quiet) + more


def _setting(name: str, options: Sequence[str], environment: Mapping[str, str] | None = None) -> str | None:
    """Return the value of a Streamlit setting from the options, else from the environment; None without
    one.

    >>> _setting("server.port", ["--server.port=8600"], {}), _setting("server.port", [], {})
    ('8600', None)
    """
    for k, each in enumerate(options):
        key, equals, value = each.partition("=")
        if key == f"--{name}":
            return value if equals else "".join(options[k + 1 : k + 2])
    words = "".join(f"_{letter}" if letter.isupper() else letter for letter in name.replace(".", "_"))
    return (os.environ if environment is None else environment).get(f"STREAMLIT_{words.upper()}")


def _without(name: str, options: Sequence[str], kept: bool) -> list[str]:
    found: list[str] = []
    rest = iter(options)
    for each in rest:
        if kept or each.partition("=")[0] != f"--{name}":
            found.append(each)
        elif "=" not in each:
            next(rest, None)
    return found


def _free_port() -> int:
    """Return the first free port from Streamlit's own on."""
    for port in range(_PORT, _PORT + _PORTS):
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)):
                return port
    return _PORT
