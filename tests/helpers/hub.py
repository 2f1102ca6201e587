"""A hub of our own: lists a model, sends its files by ranges, and can be told to lie about them."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

REPO, COMMIT = "owner/name", "0123456789abcdef" * 2 + "01234567"


class Hub(ThreadingHTTPServer):
    """One model with the given files. `lie` names what it does wrong with files, one of those in `_Asked`."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, files, *, lie="", lfs=True):
        super().__init__(("127.0.0.1", 0), _Asked)
        self.files, self.lie, self.lfs = dict(files), lie, lfs
        #: Paths and ranges that were asked for, and the logins.
        self.asked = []
        self.logins = []
        #: The login that opens the files; None where everybody may read them.
        self.login = None
        #: Ends what stalls.
        self.over = threading.Event()

    @property
    def origin(self):
        return f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def name(self):
        return self.origin.removeprefix("http://")

    @property
    def ranges(self):
        """The ranges of files that were asked for, as pairs of the first byte and the last."""
        return [tuple(map(int, part.split("-"))) for path, part in self.asked if part]

    def listing(self):
        """What the hub says of its model."""
        files = []
        for name, content in self.files.items():
            sha256 = hashlib.sha256(content).hexdigest()
            if self.lie == "digest":
                sha256 = "0" * 64
            blob = hashlib.sha1(f"blob {len(content)}\0".encode() + content).hexdigest()
            files.append(
                {"rfilename": name, "size": len(content), "blobId": blob}
                | ({"lfs": {"sha256": sha256, "size": len(content)}} if self.lfs else {})
            )
        return {"id": REPO, "sha": COMMIT, "siblings": files}

    def handle_error(self, *_):
        """Say nothing: a client that has had enough of a lie goes away."""


class _Asked(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Hub

    def log_message(self, *_):
        pass

    def do_GET(self):
        path, part = unquote(urlsplit(self.path).path), self.headers.get("Range", "")
        login = self.headers.get("Authorization")
        self.server.asked.append((path, part.removeprefix("bytes=")))
        self.server.logins.append(login)
        if path.startswith("/api/models/"):
            self._list(path)
        elif self.server.login not in (None, login):
            self._send(403 if login else 401, {"Content-Length": "0"}, b"")
        else:
            self._file(path, part)

    def _list(self, path):
        known = path in (f"/api/models/{REPO}/revision/{each}" for each in ("main", "v1", COMMIT))
        if self.server.lie == "list_slow":
            self.server.over.wait(5)
        if self.server.lie == "list_endless":
            return self._send(200, {"Content-Length": str(2**40)}, b"{")
        body = b"no json" if self.server.lie == "list" else json.dumps(self.server.listing()).encode()
        self._send(200 if known else 401, {"Content-Length": str(len(body))}, body)

    def _file(self, path, part):
        server, lie = self.server, self.server.lie
        found = re.fullmatch(rf"/{REPO}/resolve/{COMMIT}/(.+)", path)
        content = server.files.get(found[1]) if found else None
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", part)
        if content is None or not wanted:
            return self._send(404, {"Content-Length": "0"}, b"")
        tag = hashlib.sha256(content).hexdigest()
        first, last = map(int, wanted.groups())
        body = content[first : last + 1]
        headers = {
            "Content-Range": f"bytes {first}-{first + len(body) - 1}/{len(content)}",
            "Content-Length": str(len(body)),
            "ETag": f'"{tag}"',
            "X-Repo-Commit": COMMIT,
        }
        status = 206
        if lie in ("401", "404", "416", "429", "500"):
            return self._send(int(lie), {"Content-Length": "0"}, b"")
        if lie.startswith("to "):
            return self._send(302, {"Location": lie.removeprefix("to "), "Content-Length": "0"}, b"")
        if lie == "circle":
            return self._send(302, {"Location": path, "Content-Length": "0"}, b"")
        if lie == "stall":
            self._send(status, headers, body[: len(body) // 2], more=True)
            server.over.wait(5)
            return None
        if lie == "drip":
            self._send(status, headers, b"", more=True)
            for byte in body:
                if server.over.wait(0.02):
                    return None
                self.wfile.write(bytes([byte]))
                self.wfile.flush()
        if lie == "cut" or (lie == "cut once" and len(server.ranges) == 1):
            self._send(status, headers, body[:-1])
            self.connection.shutdown(socket.SHUT_RDWR)
            return None
        if lie == "short":
            headers["Content-Length"], body = str(len(body) - 1), body[:-1]
        if lie == "long":
            del headers["Content-Length"]
            body += b"more"
        if lie == "elsewhere":
            headers["Content-Range"] = f"bytes {first + 1}-{last + 1}/{len(content)}"
        if lie == "no range":
            del headers["Content-Range"]
        if lie == "size":
            headers["Content-Range"] = headers["Content-Range"].replace(f"/{len(content)}", f"/{10**13}")
        if lie == "whole":
            del headers["Content-Range"]
            status, headers["Content-Length"] = 200, str(2**40)
        if lie == "gzip":
            headers["Content-Encoding"] = "gzip"
        if lie == "tag" and len(server.ranges) > 1:
            headers["ETag"] = '"another"'
        if lie == "linked":
            headers["X-Linked-ETag"] = '"another"'
        if lie == "commit":
            headers["X-Repo-Commit"] = "f" * 40
        if lie == "bytes":
            body = bytes(255 - byte for byte in body)
        if lie == "no http":
            self.wfile.write(b"\0" * 100_000)
            self.close_connection = True
            return None
        return self._send(status, headers, body)

    def _send(self, status, headers, body, *, more=False):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Connection", "close")
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(body)
            self.wfile.flush()
        self.close_connection = not more


@contextlib.contextmanager
def serving(files, **how):
    """A hub with these files, while the `with` block lasts."""
    hub = Hub(files, **how)
    thread = threading.Thread(target=hub.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        hub.over.set()
        hub.shutdown()
        hub.server_close()
        thread.join(5)
