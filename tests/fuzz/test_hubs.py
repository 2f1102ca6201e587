"""Damaged answers of hubs, byte by byte as they come from the network: each is what was asked for, or a
sentence.
"""

import collections
import json
import random
import socket

from quantviz.errors import QuantVizError
from quantviz.sources.hubs import connection, models
from quantviz.sources.hubs.addresses import HubAddress
from quantviz.sources.hubs.connection import Deadline, get
from quantviz.sources.hubs.hosts import Hosts
from quantviz.sources.limits import HubLimits
from quantviz.text import languages
from tests.helpers.damage import damaged
from tests.helpers.hub import COMMIT, REPO, Hub
from tests.helpers.sample import sample_of

TRIES, A_RUN = 4000, 150
URL = "https://hub.example/a/b"
BODY = bytes(range(64))
RANGE = 'HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 64-127/256\r\nETag: "abc"\r\n'
ANSWERS = (
    f"{RANGE}Content-Length: 64\r\n\r\n".encode() + BODY,
    f"{RANGE}Transfer-Encoding: chunked\r\n\r\n40\r\n".encode() + BODY + b"\r\n0\r\n\r\n",
    f"{RANGE}\r\n".encode() + BODY,
    b'HTTP/1.1 302 Found\r\nLocation: https://cdn.example:8443/x?y=z\r\nX-Linked-ETag: "abc"\r\n\r\n',
    b"HTTP/1.1 307 Temporary Redirect\r\nLocation: //[2606:4700::1111]/x\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 308 Permanent Redirect\r\nLocation: ../x#y\r\nContent-Length: 99999999999999999999\r\n\r\n",
    b"HTTP/1.0 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n",
    b"HTTP/1.1 206 x\r\nContent-Range: bytes 64-127/256\r\nContent-Length: "
    + b"9" * 5000
    + b"\r\n\r\n"
    + BODY,
)

#: Listings with values of other types where the right ones are expected.
LISTINGS = tuple(
    {"sha": COMMIT, "siblings": [{"rfilename": "x.gguf", "size": 3, "blobId": "b", "lfs": None} | wrong]}
    for wrong in (
        {"lfs": {"sha256": 5, "size": 3}},
        {"lfs": [1]},
        {"lfs": "text"},
        {"size": True},
        {"size": 10**400},
        {"rfilename": ["x.gguf"]},
        {"rfilename": "../x.gguf"},
        {"rfilename": "\ud800.gguf"},
        {"rfilename": "x" * 10**5 + ".gguf"},
        {"blobId": {"a": 1}},
    )
)


def test_a_damaged_answer_is_what_was_asked_for_or_a_sentence(monkeypatch):
    hosts, limits = Hosts.read("hub.example cdn.example:8443"), HubLimits()
    answers, others, asked = [], [], []

    def connected(parts, *_):
        ours, theirs = socket.socketpair()
        theirs.sendall(answers[len(asked) % len(answers)])
        theirs.shutdown(socket.SHUT_WR)
        others.append(theirs)
        asked.append(parts)
        return ours

    monkeypatch.setattr(connection, "_connected", connected)
    fates, raw = collections.Counter(), []
    for seed in sample_of(range(TRIES), A_RUN):
        chance = random.Random(seed)
        answers[:] = [damaged(chance.choice(ANSWERS), ANSWERS, chance) for _ in range(3)]
        asked.clear()
        try:
            found = get(URL, hosts, limits, Deadline.of(60), most=64, part=(64, 128))
        except QuantVizError as problem:
            fates[problem.key] += 1
            raw += [(seed, said) for said in map(problem.message, languages()) if len(said) > 500]
        except Exception as problem:
            raw.append((seed, repr(problem)))
        else:
            fates["read"] += 1
            raw += [(seed, found)] if len(found.body) != 64 or found.total < 128 else []
        raw += [(seed, parts) for parts in asked if not hosts.allow(parts)]
        for theirs in others:
            theirs.close()
        others.clear()
    assert raw == []
    assert {"read", "hub.cut", "hub.redirected"} <= set(fates), fates


def test_a_damaged_listing_is_a_model_or_a_sentence():
    """What is understood of it has types and bounds, whatever stands in the rest."""
    with Hub({"model.safetensors": b"x" * 9, "config.json": b"{}", "a/b.gguf": b"y"}) as hub:
        listing = json.dumps(hub.listing()).encode()
    listings = (listing, *(json.dumps(each).encode() for each in LISTINGS))
    understood = 0
    for seed in sample_of(range(TRIES), 2 * A_RUN):
        chance = random.Random(seed)
        model = models._model(
            "hub.example", HubAddress(REPO, COMMIT), damaged(chance.choice(listings), listings, chance)
        )
        for each in (*model.files, *model.configurations) if model else ():
            understood += 1
            assert type(each.size) is int, seed
            assert 0 <= each.size < 2**63, seed
            assert (type(each.sha256), type(each.blob)) == (str, str), seed
            assert each.name.isprintable(), seed
    assert understood
