"""A lecturer who leads a room of a server by HTTP."""

import json
import urllib.request

from quantviz.rooms.serving import rooms
from quantviz.ui.shell.room_routes import KEY


class Leader:
    """A new room of the server at an address that has this process's store."""

    def __init__(self, address, plan):
        self._room = rooms().open(plan)
        self._address = address
        self.code = self._room.code

    def act(self, word, **more):
        """Do an act on the room as it is now."""
        version = rooms().find(self.code).version
        request = urllib.request.Request(
            f"{self._address}/room/{self.code}/act",
            json.dumps({"act": word, "version": version, **more}).encode(),
            {"content-type": "application/json", KEY: self._room.key},
        )
        with urllib.request.urlopen(request, timeout=120) as answer:
            assert answer.status == 200

    def votes(self, place):
        """Return the answers at a place with whether each was sure, by device."""
        votes = rooms().store.votes(self.code, place).items()
        return {device: tuple(json.loads(vote)) for device, vote in votes}
