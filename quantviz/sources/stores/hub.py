"""Files of published models by their addresses at a commit, read from the hubs that the operator lists."""

from __future__ import annotations

from collections.abc import Sequence

from quantviz.errors import QuantVizError
from quantviz.sources.hubs.addresses import Place, published_place
from quantviz.sources.hubs.hosts import Hosts, hubs_offered
from quantviz.sources.hubs.models import find_model
from quantviz.sources.hubs.published import Ranges
from quantviz.sources.limits import HubLimits
from quantviz.sources.stores.store import About, Store, problem_at


class HubStore(Store):
    """Files of listed hubs: each byte is fetched once, checked and cached. Safe for many threads."""

    def __init__(self) -> None:
        self._files: dict[Place, Ranges] = {}

    @staticmethod
    def has(address: str) -> bool:
        """Return whether an address names a file of a listed hub at a commit."""
        try:
            return hubs_offered() and bool(published_place(address))
        except QuantVizError:
            return False

    def about(self, address: str) -> About:
        ranges = self._ranges(address)
        return About(ranges.file.size, f"commit={ranges.model.commit}")

    def read(self, address: str, ranges: Sequence[tuple[int, int]], about: About) -> list[bytes]:
        file = self._ranges(address)
        return [bytes(file.read(*part)) for part in ranges]

    def names(self, address: str) -> tuple[str, ...]:
        raise problem_at(address, "no_list")

    def _ranges(self, address: str) -> Ranges:
        place = published_place(address)
        if place not in self._files:
            model = find_model(place)
            hosts = Hosts.of_environment()
            self._files[place] = Ranges(model, model.file(place.file), hosts, HubLimits.of_environment())
        return self._files[place]
