"""The limits of reading from hubs, as the environment sets them."""

from __future__ import annotations

from dataclasses import dataclass

from quantviz.sources.limits import read_limits

#: The prefix of the environment variables.
HUB_LIMIT_VARIABLE = "QUANTVIZ_HUB_"


@dataclass(frozen=True)
class HubLimits:
    """The limits of reading from hubs: bytes, seconds and requests.

    The environment sets them: `QUANTVIZ_HUB_` and the field's name in capitals, a whole number above 0.
    """

    #: Bytes that are kept on disk.
    cache_bytes: int = 4 * 2**30
    #: Bytes that are read for one tensor.
    tensor_bytes: int = 2**30
    #: Seconds that one reading may take, however many requests it needs.
    seconds: float = 120
    #: Seconds for which a host may send nothing.
    quiet_seconds: float = 15
    #: Requests at a time, of all sessions together: to all hosts, and to one, so that a host that stalls does
    #: not block the others.
    requests: int = 16
    host_requests: int = 4
    #: Redirects that a request may follow.
    redirects: int = 5

    @classmethod
    def of_environment(cls) -> HubLimits:
        """Return the limits that the environment sets; raise `QuantVizError` for an invalid value."""
        return read_limits(cls, HUB_LIMIT_VARIABLE)
