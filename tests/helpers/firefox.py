"""Firefox by its own protocol, Marionette: a page opened, its mouse dragged, its scripts asked."""

import json
import shutil
import socket
import subprocess
import time

PORT = 2828
#: Nothing of the net is looked up.
SETTINGS = 'user_pref("network.dns.disabled", true);\nuser_pref("network.proxy.type", 0);\n'


def firefox_path():
    return shutil.which("firefox-esr") or shutil.which("firefox")


class Firefox:
    """Firefox without windows, with a profile of its own in a folder."""

    def __init__(self, folder):
        (folder / "user.js").write_text(SETTINGS)
        order = [firefox_path(), "--headless", "--marionette", "--no-remote", "--profile", str(folder)]
        nowhere = subprocess.DEVNULL
        self.process = subprocess.Popen(order, stdout=nowhere, stderr=nowhere)
        self.left, self.number = b"", 0
        self.wait(self.connected)
        self.read()
        self.ask("WebDriver:NewSession", capabilities={})

    def connected(self):
        try:
            self.line = socket.create_connection(("127.0.0.1", PORT))
        except OSError:
            return False
        return True

    def wait(self, found, seconds=60):
        end = time.monotonic() + seconds
        while not found():
            assert time.monotonic() < end
            time.sleep(0.1)

    def read(self):
        while b":" not in self.left:
            self.left += self.line.recv(1 << 16)
        length, _, rest = self.left.partition(b":")
        while len(rest) < int(length):
            rest += self.line.recv(1 << 16)
        self.left = rest[int(length) :]
        return json.loads(rest[: int(length)])

    def ask(self, name, **values):
        self.number += 1
        message = json.dumps([0, self.number, name, values]).encode()
        self.line.sendall(b"%d:%b" % (len(message), message))
        _, _, problem, answer = self.read()
        assert problem is None, problem
        return answer

    def evaluate(self, script):
        return self.ask("WebDriver:ExecuteScript", script=f"return ({script})", args=[])["value"]

    def open(self, address, until):
        self.ask("WebDriver:Navigate", url=address)
        self.wait(lambda: self.evaluate(until))

    def drag(self, selector, down, dx, dy):
        """Drag from `down` pixels below the top of an element's middle."""
        box = self.evaluate(
            f"document.querySelector({json.dumps(selector)}).getBoundingClientRect().toJSON()"
        )
        x, y = round(box["x"] + box["width"] / 2), round(box["y"] + down)
        steps = [{"type": "pointerMove", "x": x, "y": y}, {"type": "pointerDown", "button": 0}]
        steps += [{"type": "pointerMove", "x": x + dx * i // 4, "y": y + dy * i // 4} for i in range(1, 5)]
        mouse = {"type": "pointer", "id": "mouse", "actions": [*steps, {"type": "pointerUp", "button": 0}]}
        self.ask("WebDriver:PerformActions", actions=[mouse])

    def close(self):
        self.process.terminate()
        self.process.wait()
