"""The files for servers and for GitHub fit their schemas, and Caddy keeps a browser with its server."""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import threading
import time
import tomllib
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import torch
from check_jsonschema import main as check_jsonschema
from click.testing import CliRunner
from ruamel.yaml import YAML
from safetensors.torch import save_file

from quantviz.cli import quantviz
from tests.helpers.ports import free_port

ROOT = Path(__file__).parent.parent
GITHUB = ROOT / ".github"
CADDY = shutil.which("caddy")
SCHEMAS = {
    "citation-file-format": [GITHUB / "CITATION.cff"],
    "github-actions": sorted((GITHUB / "actions").glob("*/action.yml")),
    "compose-spec": [GITHUB / "deploy" / "compose.yaml"],
    "github-workflows": sorted((GITHUB / "workflows").glob("*.yml")),
}


@pytest.mark.parametrize("schema", SCHEMAS)
def test_a_file_fits_its_schema(schema):
    assert SCHEMAS[schema]
    done = CliRunner().invoke(
        check_jsonschema, ["--builtin-schema", f"vendor.{schema}", *map(str, SCHEMAS[schema])]
    )
    assert done.exit_code == 0, done.output


def test_the_image_is_built_as_it_should_be():
    hadolint = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([hadolint, GITHUB / "deploy" / "Dockerfile"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def model(tmp_path):
    drawn = torch.randn(32, 64, generator=torch.Generator().manual_seed(0))
    save_file({"model.layers.0.mlp.up_proj.weight": drawn}, tmp_path / "model.safetensors")
    return tmp_path / "model.safetensors"


@pytest.mark.parametrize(
    ("bound", "status"),
    [("90", 1), *(pytest.param(*each, marks=pytest.mark.nightly) for each in (("10", 0), ("x", 2)))],
)
def test_the_action_leaves_the_map_a_table_and_the_status(model, tmp_path, bound, status):
    inputs = {"MODEL": model.name, "RECIPES": "int4_g32  int8_per_row", "ENGINE": "", "FAIL_UNDER": bound}
    places = {"FOLDER": "out", "RUNNER_TEMP": str(tmp_path), "GITHUB_STEP_SUMMARY": str(tmp_path / "summary")}
    # This Python's `quantviz` is on the path.
    command = tmp_path / "bin" / "quantviz"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m quantviz "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    path = f"{command.parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), **inputs, **places}
    script = ["bash", str(GITHUB / "actions" / "scan" / "scan.sh")]
    done = subprocess.run(script, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == status, done.stderr
    if status < 2:
        assert "| int4\\_g32 | 4.5 |" in (tmp_path / "summary").read_text(encoding="utf-8")
        assert "up_proj" in (tmp_path / "out" / "scan.html").read_text(encoding="utf-8")
        assert ("<failure" in (tmp_path / "out" / "scan.xml").read_text(encoding="utf-8")) == bool(status)
        assert "the SQNR" in done.stderr or "failed" in done.stderr


def test_the_hook_is_a_command_that_holds_a_model_to_a_bound(model, tmp_path):
    (hook,) = YAML(typ="safe").load(ROOT / ".pre-commit-hooks.yaml")
    arguments = [model.name, "-r", "int4_g32", "--results", "kept", "--fail-under", "90"]
    program, *verb = hook["entry"].split()
    assert program == "quantviz"
    with contextlib.chdir(tmp_path):
        assert CliRunner().invoke(quantviz, [*verb, *arguments]).exit_code == 1
    assert re.search(hook["files"], model.name)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    assert set(hook["additional_dependencies"]) <= {*extras["app"], *extras["fast"]}


class Named(BaseHTTPRequestHandler):
    """Answers everything with the server's own port."""

    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(str(self.server.server_port).encode())

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def small_server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Named) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def asked(address, cookie=""):
    """The answer of an address and the cookie that comes with it."""
    request = urllib.request.Request(address, headers={"Cookie": cookie})
    with urllib.request.urlopen(request, timeout=120) as answer:
        return answer.read().decode(), (answer.headers["Set-Cookie"] or "").partition(";")[0]


@pytest.mark.skipif(CADDY is None, reason="Caddy is not installed")
def test_a_browser_stays_with_its_server_while_that_answers(tmp_path):
    with small_server() as one, small_server() as two:
        site = f"http://127.0.0.1:{free_port()}"
        servers = {str(each.server_port): each for each in (one, two)}
        setting = {"SITE": site, "COOKIE_SECRET": "s", "SERVERS": " ".join(f"127.0.0.1:{p}" for p in servers)}
        command = [CADDY, "run", "--adapter", "caddyfile", "--config", str(GITHUB / "deploy" / "Caddyfile")]
        env = {**os.environ, **setting, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
        caddy = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            for _ in range(900):
                with contextlib.suppress(OSError):
                    asked(site)
                    break
                time.sleep(0.1)
            browsers = dict(asked(f"{site}/lab") for _ in range(30))
            assert browsers.keys() == servers.keys()
            for port, cookie in browsers.items():
                assert {asked(f"{site}/lab", cookie)[0] for _ in range(5)} == {port}
            with pytest.raises(urllib.error.HTTPError, match="404"):
                asked(f"{site}/metrics")
            port, cookie = browsers.popitem()
            servers[port].shutdown()
            servers[port].server_close()
            assert asked(f"{site}/lab", cookie)[0] in browsers
        finally:
            caddy.terminate()
            caddy.wait(60)
