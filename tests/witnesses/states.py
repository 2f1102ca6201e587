"""What a page sends to the browser, by kinds of parts: `python -m tests.witnesses.states FILE` writes it all.

Numbers are rounded to `DIGITS`, for processors add in different orders. Left out is what changes from run to
run, or with nothing that is seen: ids of elements, addresses of files, scripts and styles, a session's key.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import html
import io
import json
import os
import re
import struct
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from google.protobuf.json_format import MessageToDict
from PIL import Image
from safetensors.torch import save_file
from streamlit.testing.v1 import AppTest

from quantviz.checkpoints.results.store import Results
from quantviz.checkpoints.scan.scanning import run_scan
from tests.witnesses.pages import page_and_pairs

APP = Path(__file__).parents[2] / "app.py"
KINDS = ("address", "figures", "payloads", "texts", "controls")
DIGITS = 4
#: The script of each page, by its path.
PAGES = {
    "lab": "pages/lab/playground.py",
    "layers": "pages/explore/layers.py",
    "attention": "pages/explore/attention.py",
    "checkpoints": "pages/explore/checkpoints.py",
    **{name: f"pages/learn/{name}.py" for name in ("lessons", "formats", "bugs", "golf", "teacher")},
}
#: Elements that hold text, and fields of others that nobody sees.
_TEXTS = (
    "markdown",
    "caption",
    "html",
    "heading",
    "title",
    "header",
    "subheader",
    "error",
    "warning",
    "info",
)
_TEXTS += ("success", "text", "code", "latex", "alert", "exception")
_UNSEEN = frozenset({"id", "deferredFileId", "form_id", "session", "max_upload_size_mb", "url", "element_id"})
_SCRIPTS = re.compile(r"<(script|style)\b.*?</\1>", re.DOTALL)


def sent(link: str) -> dict[str, Any]:
    """Return the parts of a page that a session gets at a link, by kind."""
    page, pairs = page_and_pairs(link)
    with _on_a_server() if page == "checkpoints" else contextlib.nullcontext():
        return _sent(page, pairs)


@contextlib.contextmanager
def _on_a_server() -> Iterator[None]:
    """Have the app offer a folder with a checkpoint and its scan, and nothing of the machine's own."""
    with tempfile.TemporaryDirectory() as made:
        data = Path(made) / "data"
        data.mkdir()
        values = (torch.arange(8 * 128) * 37 % 101 - 50).reshape(8, 128) / 16.0
        tensors = {f"model.layers.{n}.{name}.weight": values + n for n in range(2) for name in ("up", "down")}
        save_file(tensors, data / "m.safetensors")
        save_file({"lm_head.weight": values}, data / "fresh.safetensors")
        folders = {"QUANTVIZ_DATA_DIR": str(data), "QUANTVIZ_CACHE_DIR": str(Path(made) / "cache")}
        with patch.dict(os.environ, folders):
            with Results() as results:
                run_scan(results, data / "m.safetensors", ("int4_g128", "int8_per_row"))
            yield


def _sent(page: str, pairs: list[tuple[str, str]]) -> dict[str, Any]:
    at = AppTest.from_file(str(APP), default_timeout=300)
    if page:
        at.switch_page(PAGES[page])
    for name, value in pairs:
        at.query_params[name] = value
    at.run()
    parts: dict[str, Any] = {kind: [] for kind in KINDS}
    parts["address"] = sorted((name, value) for name, value in at.query_params.items())
    for element in _elements(at._tree):
        kind, part = _part(element)
        if part:
            parts[kind].append(part)
    return {kind: _rounded(part) for kind, part in parts.items()}


def hashes(parts: dict[str, Any]) -> dict[str, str]:
    """Return a hash of each kind of part."""
    return {
        kind: hashlib.sha256(json.dumps(part, sort_keys=True).encode()).hexdigest()[:12]
        for kind, part in parts.items()
    }


def _elements(block: Any) -> Iterator[Any]:
    for child in block.children.values():
        yield child
        if hasattr(child, "children"):
            yield from _elements(child)


def _part(element: Any) -> tuple[str, Any]:
    """Return the kind of an element, and what is seen or computed of it; nothing of what only lays out."""
    proto = element.proto
    if element.type == "plotly_chart":
        return "figures", json.loads(proto.spec)
    if element.type == "bidi_component":
        data = _unpacked(proto.bytes) if proto.bytes else json.loads(proto.json or "null")
        return "payloads", [proto.component_name, data]
    if element.type in ("arrow_data_frame", "dataframe", "table"):
        return "figures", element.value.astype(str).to_dict("split")
    if element.type in _TEXTS:
        seen = _SCRIPTS.sub("", getattr(proto, "body", "") or getattr(proto, "code_text", ""))
        return "texts", " ".join(html.unescape(re.sub("<[^>]+>", " ", seen)).split())
    if proto is None or element.type in ("empty", "flex_container", "column", "horizontal"):
        return "controls", None
    fields = {name: value for name, value in MessageToDict(proto).items() if name not in _UNSEEN}
    return "controls", [element.type, getattr(element, "key", None), fields]


def _unpacked(message: bytes) -> dict[str, Any]:
    """Return the header of packed numbers with its arrays: `quantviz.browser.packing` writes them."""
    (length,) = struct.unpack_from("<I", message)
    header = json.loads(message[4 : 4 + length])
    places = header.pop("arrays")
    arrays = {
        way: np.frombuffer(message, f"<{dtype}", count, 4 + length + offset).tolist()
        for way, (dtype, offset, count) in places.items()
    }
    return {"header": header, "arrays": arrays}


def _rounded(part: Any) -> Any:
    """Return a part with its numbers rounded, arrays and pictures decoded, and without what nobody sees."""
    if isinstance(part, float):
        return float(f"{part:.{DIGITS}g}")
    if isinstance(part, dict):
        if "bdata" in part:
            return _rounded(np.frombuffer(base64.b64decode(part["bdata"]), f"<{part['dtype']}").tolist())
        return {name: _rounded(value) for name, value in part.items() if name not in _UNSEEN}
    if isinstance(part, list | tuple):
        return [_rounded(each) for each in part]
    if isinstance(part, str) and part.startswith("data:image/png;base64,"):
        with Image.open(io.BytesIO(base64.b64decode(part.partition(",")[2]))) as picture:
            return hashlib.sha256(picture.convert("RGBA").tobytes()).hexdigest()
    return part


def links() -> list[str]:
    """Return the links of the states."""
    return Path(__file__).with_name("states.txt").read_text(encoding="utf-8").splitlines()


def state_lines() -> list[str]:
    """Return each link, and below it the hashes."""
    return [line for link in links() for line in (link, f"  {hash_line(link)}")]


def hash_line(link: str) -> str:
    """Return the hashes of a state, each after its kind."""
    return " ".join(f"{kind}={value}" for kind, value in hashes(sent(link)).items())


if __name__ == "__main__":
    with Path(sys.argv[1]).open("w", encoding="utf-8") as file:
        for each in links():
            print(json.dumps({each: sent(each)}, ensure_ascii=False, indent=1), file=file)
