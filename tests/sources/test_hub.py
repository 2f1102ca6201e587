"""Tensors of published models: read by ranges and kept, from listed hosts alone, whatever a hub answers."""

import asyncio
import contextlib
import ipaddress
import json
import socket
import threading
import time
from pathlib import Path

import pytest
import safetensors.torch
import torch

from quantviz.errors import QuantVizError
from quantviz.lab.state import LabState, opening
from quantviz.sources import HubTensor, parse_source, write_source
from quantviz.sources.files.safetensors import SafetensorsCatalog
from quantviz.sources.hubs import connection, models, published
from quantviz.sources.hubs.addresses import HubAddress, parse_address
from quantviz.sources.hubs.byte_cache import ByteCache
from quantviz.sources.hubs.connection import Deadline, Places, get
from quantviz.sources.hubs.hosts import DISABLED, HUBS, USUAL, Hosts, hub_token, is_public
from quantviz.sources.hubs.models import find_model, published_catalog
from quantviz.sources.hubs.published import PIECE, Ranges
from quantviz.sources.limits import HubLimits
from quantviz.sources.stores.store_data import StoreData
from quantviz.sources.stores.web import NamedHost, WebStore
from quantviz.text import languages
from quantviz.ui.shell import server
from quantviz.ui.shell.imports import Ahead
from tests.helpers.gguf_file import Entry, gguf_file
from tests.helpers.hub import COMMIT, REPO, serving
from tests.helpers.sharded import INDEX, A, B, write_model
from tests.helpers.written_layouts import written

ROWS = 512
#: Three tensors of 3 MiB each, so that none of them has to be read for another.
TENSORS = {name: torch.full((ROWS, 1536), value) for name, value in (("a", 1.0), ("b", 2.0), ("c", 3.0))}
TENSORS["c"][0, 1] = -7.5
LARGE = safetensors.torch.save(TENSORS)
SMALL = safetensors.torch.save({"x.weight": torch.arange(24.0).reshape(4, 6)})
FILE = "model.safetensors"


#: What users of huggingface_hub set.
LOGIN = ("HF_ENDPOINT", "HF_HUB_CACHE", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH", DISABLED)


@pytest.fixture(autouse=True)
def fresh(tmp_path, monkeypatch):
    """Nothing kept, in memory or on disk, and no hub listed."""
    monkeypatch.setenv("QUANTVIZ_CACHE_DIR", str(tmp_path / "cache"))
    for setting in (HUBS, *LOGIN):
        monkeypatch.delenv(setting, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    forget()


def forget():
    """What a new process knows: nothing but what is on the disk."""
    models._found_once.cache_clear()
    models._catalog.cache_clear()


def listed(hub, monkeypatch, *more):
    monkeypatch.setenv(HUBS, " ".join((hub.origin, *more)))


def refused(call, *args, **named):
    with pytest.raises(QuantVizError) as caught:
        call(*args, **named)
    for language in languages():
        sentence = caught.value.message(language)
        assert "{" not in sentence
        assert sentence.endswith((".", "。", "?", "？"))
    return caught.value.key


def ranges(hub, file=FILE, **limits):
    """The bytes of a file of the hub's model, and the last of them."""
    hosts = Hosts.read(hub.origin)
    model = find_model(HubAddress(REPO))
    return Ranges(model, model.file(file), hosts, HubLimits(**limits))


# ---- what is read ---------------------------------------------------------------------------------


def test_a_tensor_opens_by_its_ranges_and_again_from_the_disk(monkeypatch):
    with serving({FILE: LARGE}) as hub:
        listed(hub, monkeypatch)
        source = parse_source(f"hub({REPO}@main,{FILE},c)")
        assert source == HubTensor(REPO, COMMIT, FILE, "c", (ROWS, 1536))
        assert hub.ranges == [(0, PIECE - 1)]  # the header alone
        assert torch.equal(source.tensor(), TENSORS["c"])
        assert torch.equal(torch.from_numpy(source.open().run(0, 9).copy()), TENSORS["c"].flatten()[:9])
        # What lies between the header and the tensor was not asked for, and nothing twice.
        assert sorted(hub.ranges)[1][0] >= 6 * PIECE
        assert len(set(hub.ranges)) == len(hub.ranges)
        state = opening().with_source(source)
        assert LabState.read(state.written()) == (state, ())
        assert write_source(source) == f"hub({REPO}@{COMMIT},{FILE},c,{ROWS}x1536)"
    forget()  # the hub is gone
    assert torch.equal(parse_source(write_source(source)).tensor(), TENSORS["c"])


def test_a_window_reads_its_own_rows(monkeypatch):
    with serving({FILE: LARGE}) as hub:
        listed(hub, monkeypatch)
        catalog = published_catalog(find_model(HubAddress(REPO)), FILE)
        assert torch.equal(catalog.load("b", (slice(300, 302), slice(1, 3))), TENSORS["b"][300:302, 1:3])
        assert hub.ranges == [(0, PIECE - 1), (4 * PIECE, 5 * PIECE - 1)]


def test_a_hubs_file_is_listed_and_decoded_in_a_process_that_may_ask_for_its_bytes_alone(
    monkeypatch, tmp_path
):
    _, theirs = written("modelopt_nvfp4", tmp_path / "x.safetensors")
    files = {name: (tmp_path / name).read_bytes() for name in ("x.safetensors", "config.json")}

    def here(*_):
        raise AssertionError("read in the server's process")

    with serving(files) as hub:
        listed(hub, monkeypatch)
        monkeypatch.setattr(SafetensorsCatalog, "_list", here)
        source = HubTensor.of(HubAddress(REPO, file="x.safetensors"), "x.weight")
        assert torch.allclose(source.tensor(), theirs.float(), rtol=1e-6, atol=1e-6)
        file = StoreData(find_model(HubAddress(REPO)).address("x.safetensors"), WebStore())
        beside = file.address.replace("x.safetensors", "config.json")
        assert file.answered(("about", beside)).size == len(files["config.json"])
        for question in (
            ("about", file.address.replace("127.0.0.1", "169.254.169.254")),
            ("about", file.address.replace(f"{REPO}/", f"{REPO}/../")),
            ("names", "s3://bucket/"),
            ("read", file.address, [(0, 8)], "any version"),
            ("_fetched", file.address),
            ("about",),
            None,
        ):
            assert refused(file.answered, question) == "store.denied"


def test_the_other_formats(monkeypatch, tmp_path):
    write_model(tmp_path)
    blocks = gguf_file([Entry("w", (32, 2), 8, bytes(68))])
    files = {path.name: path.read_bytes() for path in tmp_path.glob("*.*") if path.is_file()}
    with serving({"sub/model.gguf": blocks, **files}) as hub:
        listed(hub, monkeypatch)
        model = find_model(HubAddress(REPO))
        assert [each.name for each in model.files] == sorted(hub.files)
        sharded = published_catalog(model, INDEX)
        assert torch.equal(sharded.load("a"), A)
        assert torch.equal(HubTensor.of(HubAddress(REPO, file=INDEX), "b").tensor(), B)
        quantized = HubTensor.of(HubAddress(REPO, file="sub/model.gguf"), "w")
        assert quantized.shape == (2, 32)
        assert torch.equal(quantized.tensor(), torch.zeros(2, 32))
        assert refused(HubTensor.of, HubAddress(REPO, file=FILE), "x") == "hub.no_file"
        assert refused(HubTensor.of, HubAddress(REPO, file=INDEX), "z") == "file.no_tensor"


def test_quantized_weights_are_decoded_as_the_models_configuration_says(monkeypatch, tmp_path):
    """Of words of 32 bits the names do not tell how many codes are in one: config.json does."""
    for case in ("mlx_affine_3_64", "modelopt_nvfp4"):
        _, theirs = written(case, tmp_path / "x.safetensors")
        files = {name: (tmp_path / name).read_bytes() for name in ("x.safetensors", "config.json")}
        with serving(files) as hub:
            listed(hub, monkeypatch)
            model = find_model(HubAddress(REPO))
            assert [each.name for each in model.files] == ["x.safetensors"]
            source = HubTensor.of(HubAddress(REPO, file="x.safetensors"), "x.weight")
            assert source.shape == tuple(theirs.shape)
            assert torch.allclose(source.tensor(), theirs.float(), rtol=1e-6, atol=1e-6)
            stored = source.open()
            asked = len(hub.ranges)
            assert stored.own_scales(stored.own_scheme) is not None
            assert torch.allclose(stored.read((slice(2, 5), slice(None))), theirs[2:5].float(), atol=1e-6)
            assert len(hub.ranges) == asked  # all of it was at hand
        forget()


def test_a_name_of_any_letters_comes_back_from_its_link():
    source = HubTensor("a", COMMIT, "文件 (1).safetensors", "\ud800, x%2C)~", (2, 3), "hf-mirror.com")
    form = source.link_text()
    assert HubTensor.from_text(form) == source
    assert source.title("en").isprintable()
    assert refused(parse_source, form) == "hub.not_set"


@pytest.mark.parametrize(
    "form",
    [
        "hub()",
        f"hub({REPO}@{COMMIT},{FILE})",
        f"hub({REPO}@{COMMIT},,x,2x2)",
        f"hub({REPO}@{COMMIT},../{FILE},x,2x2)",
        f"hub(../{REPO}@{COMMIT},{FILE},x,2x2)",
        f"hub({REPO}@{COMMIT},{FILE},x,0x2)",
        f"hub({REPO}@{COMMIT},{FILE},x,2x2x2x2x2)",
        f"hub({REPO}@{COMMIT},{FILE},x,{2**62}x4)",
        f"hub({REPO}@a b,{FILE},x,2x2)",
        f"hub({REPO}@{COMMIT},{FILE},{'x' * 4000},2x2)",
    ],
)
def test_damaged_links(form):
    assert refused(parse_source, form) == "hub.form"


def test_a_link_says_another_shape_or_another_hub(monkeypatch):
    with serving({FILE: SMALL}) as hub:
        listed(hub, monkeypatch)
        form = f"hub({REPO}@{COMMIT},{FILE},x.weight,6x4)"
        assert refused(parse_source, form) == "hub.other_shape"
        edited = f"edited(hub({REPO}@{COMMIT},{FILE},x.weight,4x6),1.2=2.5)"
        assert write_source(parse_source(edited)) == edited
        assert parse_source(edited).tensor()[1, 2] == 2.5
        # Its hub is not listed here: a commit means the same on each.
        assert parse_source(f"hub({REPO}@{COMMIT},{FILE},x.weight,4x6,host=hub.example)").tensor()[0, 1] == 1
        assert refused(parse_source, f"hub({REPO}@none,{FILE},x.weight)") == "hub.no_model"
        listed(hub, monkeypatch, "https://unknown.invalid")
        found = HubTensor.of(HubAddress(REPO, file=FILE, host=hub.name), "x.weight")
        assert (found.host, found.revision) == ("", COMMIT)


def test_where_hubs_are_off_a_link_says_so():
    state, (problem,) = LabState.read({"t": f"hub({REPO}@{COMMIT},{FILE},x,2x2)"})
    assert state.source == opening().source
    assert problem.params["reason"].key == "hub.not_set"
    assert HUBS in str(problem)


# ---- what a hub may answer ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lie", "key"),
    [
        ("stall", "hub.slow"),
        ("drip", "hub.slow"),
        ("cut", "hub.cut"),
        ("short", "hub.wrong_range"),
        ("long", "hub.too_long"),
        ("elsewhere", "hub.wrong_range"),
        ("no range", "hub.wrong_range"),
        ("size", "hub.changed"),
        ("whole", "hub.no_ranges"),
        ("gzip", "hub.encoded"),
        ("tag", "hub.changed"),
        ("linked", "hub.changed"),
        ("commit", "hub.changed"),
        ("bytes", "hub.digest"),
        ("no http", "hub.cut"),
        ("401", "hub.login"),
        ("404", "hub.missing"),
        ("416", "hub.status"),
        ("429", "hub.busy"),
        ("500", "hub.status"),
        ("circle", "hub.redirects"),
        ("to https://elsewhere.example/x", "hub.redirected"),
        ("to http://127.0.0.1:1/x", "hub.redirected"),
        ("to http://169.254.169.254/latest/meta-data", "hub.redirected"),
        ("to file:///etc/passwd", "hub.damaged_address"),
        ("to https://a@hf.co:99999999/", "hub.damaged_address"),
        ("to https://[::1", "hub.damaged_address"),
        ("to //[/x", "hub.damaged_address"),
        ("to https://\x7f/", "hub.damaged_address"),
        ("to https://:0/", "hub.damaged_address"),
    ],
)
def test_lies(lie, key, monkeypatch):
    with serving({FILE: SMALL if lie != "tag" else LARGE}, lie=lie) as hub:
        listed(hub, monkeypatch)
        file = ranges(hub, seconds=0.4, quiet_seconds=0.3)
        start = time.monotonic()
        if lie == "tag":
            assert file.read(0, 9)[0]
            assert refused(file.read, 5 * PIECE, 5 * PIECE + 9) == key
        else:
            assert refused(file.read, 0, 9) == key
        assert time.monotonic() - start < 2
        # Nothing of it is left: the next one who asks is not told the lie.
        hub.lie = ""
        assert ranges(hub).read(0, 9) == hub.files[FILE][:9]


@pytest.mark.parametrize(
    ("lie", "key"), [("list", "hub.listing"), ("list_endless", "hub.too_long"), ("list_slow", "hub.slow")]
)
def test_lies_about_the_model(lie, key, monkeypatch):
    monkeypatch.setattr(HubLimits, "of_environment", lambda: HubLimits(seconds=0.3))
    with serving({FILE: SMALL}, lie=lie) as hub:
        listed(hub, monkeypatch)
        assert refused(find_model, HubAddress(REPO)) == key


def test_a_digest_is_checked_where_all_of_a_file_was_read(monkeypatch):
    with serving({FILE: SMALL}, lie="digest") as hub:
        listed(hub, monkeypatch)
        assert refused(HubTensor.of, HubAddress(REPO, file=FILE), "x.weight") == "hub.digest"
    with serving({FILE: LARGE}, lie="digest") as hub:  # the last piece that comes makes it whole
        listed(hub, monkeypatch)
        file = ranges(hub)
        half = len(LARGE) // 2
        assert file.read(0, half)[:8] == LARGE[:8]
        assert refused(file.read, half, len(LARGE)) == "hub.digest"
        assert refused(ranges(hub).read, 0, len(LARGE)) == "hub.digest"
    with serving({INDEX: b'{"weight_map": {"a": "b.safetensors"}}'}, lfs=False, lie="bytes") as hub:
        listed(hub, monkeypatch)
        assert refused(published_catalog, find_model(HubAddress(REPO)), INDEX) == "hub.digest"


def test_a_connection_that_breaks_is_tried_again_and_what_came_is_kept(monkeypatch):
    with serving({FILE: SMALL}, lie="cut once") as hub:
        listed(hub, monkeypatch)
        assert ranges(hub).read(0, 8) == SMALL[:8]
        assert len(hub.ranges) == 2
    with serving({FILE: LARGE}) as hub:
        listed(hub, monkeypatch)
        ranges(hub).read(0, 9)
        hub.lie = "cut"
        assert refused(ranges(hub).read, 0, len(LARGE)) == "hub.cut"
        hub.lie, before = "", len(hub.ranges)
        assert ranges(hub).read(0, len(LARGE)) == LARGE
        assert (0, PIECE - 1) not in hub.ranges[before:]


# ---- who is asked ---------------------------------------------------------------------------------

#: Networks of IANA's registries of special addresses, and others, whose hosts not everybody can reach, or
#: which lead elsewhere.
SPECIAL = (
    *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
    *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24"),
    *("203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4", "168.63.129.16/32"),
    *("::/96", "64:ff9b:1::/48", "100::/64", "100:0:0:1::/64", "2001::/23", "2001:db8::/32", "2002::/16"),
    *("3fff::/20", "5f00::/16", "4000::/2", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8"),
)
PUBLIC = ("1.1.1.1", "8.8.8.8", "93.184.216.34", "168.63.129.15", "223.255.255.255")


def test_only_addresses_that_everybody_can_reach_are_connected_to():
    for network in map(ipaddress.ip_network, SPECIAL):
        spread = {0, network.num_addresses // 3, network.num_addresses // 2, network.num_addresses - 1}
        for address in (network[i] for i in spread):
            forms = [str(address)]
            if address.version == 4:
                word = int(address)
                forms += [
                    f"::ffff:{address}",
                    f"::{address}",
                    str(ipaddress.IPv6Address(0x64FF9B << 96 | word)),
                ]
            assert not [form for form in forms if is_public(form)], network
    for address in map(ipaddress.ip_address, PUBLIC):
        word = int(address)
        assert is_public(str(address))
        assert is_public(f"::ffff:{address}")
        assert is_public(str(ipaddress.IPv6Address(0x64FF9B << 96 | word)))
        # Tunnels lead to who knows where, whatever address is inside.
        assert not is_public(str(ipaddress.IPv6Address(0x2002 << 112 | word << 80 | 1)))
        assert not is_public(str(ipaddress.IPv6Address(0x2001 << 112 | ~word & 0xFFFFFFFF)))
    assert is_public("2606:4700::1111")
    assert is_public("2a00:1450:4001:80f::200e")
    assert not [
        each for each in ("", "localhost", "1.2.3", "0x7f.1", "8.8.8.8.8", "[::1]") if is_public(each)
    ]


def test_a_name_that_leads_into_a_private_network_is_not_asked(monkeypatch):
    connected, looked_up = [], []

    def connect(address, *_):
        connected.append(address)
        raise OSError

    def rebinding(host, port):
        """A name that leads to the internet when it is first looked up, and then to this machine."""
        looked_up.append(host)
        return ["93.184.216.34"] if len(looked_up) == 1 else ["127.0.0.1"]

    hosts, limits = Hosts.read(USUAL), HubLimits()

    def ask(url="https://huggingface.co/x"):
        return refused(get, url, hosts, limits, Deadline.of(5), most=9)

    monkeypatch.setattr(connection.socket, "create_connection", connect)
    for private in ("10.1.2.3", "168.63.129.16", "169.254.169.254", "::1", "fe80::1%eth0", "::ffff:10.0.0.1"):
        monkeypatch.setattr(connection, "resolve", lambda *_, to=private: ["93.184.216.34", to])
        assert ask() == "hub.private"
    assert connected == []
    monkeypatch.setattr(connection, "resolve", rebinding)
    assert ask() == "hub.unreachable"
    assert (connected, looked_up) == ([("93.184.216.34", 443)], ["huggingface.co"])
    monkeypatch.setattr(connection, "resolve", lambda *_: [])
    assert ask() == "hub.unreachable"


def test_an_encrypted_hub_does_not_redirect_to_an_open_one(monkeypatch):
    """Even where that is listed too."""

    class Redirecting:
        status = 302

        def getheaders(self):
            return [("Location", "http://127.0.0.1:8000/x")]

    @connection.contextmanager
    def answering(parts, *_):
        assert parts.scheme == "https"
        yield Redirecting()

    monkeypatch.setattr(connection, "_answering", answering)
    hosts = Hosts.read("huggingface.co http://127.0.0.1:8000")
    key = refused(get, "https://huggingface.co/x", hosts, HubLimits(), Deadline.of(5), most=9)
    assert key == "hub.unencrypted"


def test_a_host_without_encryption_is_refused(monkeypatch):
    with serving({FILE: SMALL}) as hub:
        port = hub.server_address[1]
        monkeypatch.setattr(connection, "_addresses", lambda *_: ["127.0.0.1"])
        hosts = Hosts.read(f"https://hub.example:{port}")
        url = f"{hosts.hubs[0]}/api/models/{REPO}/revision/main"
        assert refused(get, url, hosts, HubLimits(), Deadline.of(2), most=9) == "hub.certificate"


def test_a_name_that_is_looked_up_for_ever_ends(monkeypatch):
    over = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: over.wait(5))
    start = time.monotonic()
    call = ("https://huggingface.co/x", Hosts.read(USUAL), HubLimits(), Deadline.of(0.2))
    assert refused(get, *call, most=9) == "hub.slow"
    assert time.monotonic() - start < 1
    over.set()


@pytest.mark.parametrize(
    "entry",
    [
        *("http://huggingface.co", "ftp://hub.example", "localhost", "127.0.0.1", "https://10.0.0.1", "*"),
        *("*.com.", "http://127.0.0.1", "http://127.0.0.2:80", "a_b.example", "huggingface.co/models"),
        "user@hub.example",
    ],
)
def test_settings_that_are_no_hosts(entry, monkeypatch):
    monkeypatch.setenv(HUBS, f"huggingface.co {entry}")
    assert refused(Hosts.of_environment) == "hub.setting"


def test_the_usual_hosts():
    hosts = Hosts.read(USUAL)
    assert hosts.names == ("huggingface.co", "hf-mirror.com")
    for allowed in (
        "https://cas-bridge.xethub.hf.co/a?b",
        "https://us.aws.cdn.hf.co/",
        "https://hf-mirror.com/",
    ):
        assert hosts.allow(allowed)
    for other in (
        "http://huggingface.co/",
        "https://huggingface.co:444/",
        "https://huggingface.co.example/",
        "https://user@huggingface.co/",
        "https://x@cdn.hf.co/",
        "https://cdn.hf.co:8443/",
        "https://cdnhf.co/",
        "https://.hf.co/",
        "//hf.co/",
    ):
        assert not hosts.allow(other), other


@pytest.mark.parametrize(
    ("pasted", "place"),
    [
        ("https://huggingface.co/a/b", HubAddress("a/b", host="huggingface.co")),
        (" huggingface.co/a/b/?library=x#y ", HubAddress("a/b", host="huggingface.co")),
        ("https://HUGGINGFACE.co/gpt2", HubAddress("gpt2", host="huggingface.co")),
        (
            "https://huggingface.co/gpt2/blob/main/x.gguf",
            HubAddress("gpt2", "main", "x.gguf", "huggingface.co"),
        ),
        ("https://hf-mirror.com/a/b/tree/v1/sub", HubAddress("a/b", "v1", host="hf-mirror.com")),
        (
            "https://huggingface.co/a/b/tree/refs%2Fpr%2F1",
            HubAddress("a/b", "refs/pr/1", host="huggingface.co"),
        ),
        (
            "https://huggingface.co/a/b/resolve/main/c/d%20e.gguf?download=true",
            HubAddress("a/b", "main", "c/d e.gguf", "huggingface.co"),
        ),
        ("https://huggingface.co/a/b/discussions/3", HubAddress("a/b", host="huggingface.co")),
        ("a/b", HubAddress("a/b")),
        (f"a/b.c@{COMMIT}", HubAddress("a/b.c", COMMIT)),
    ],
)
def test_addresses(pasted, place):
    assert parse_address(pasted, Hosts.read(USUAL)) == place


@pytest.mark.parametrize(
    ("pasted", "key"),
    [
        ("", "hub.address"),
        ("https://huggingface.co/", "hub.address"),
        ("https://huggingface.co/datasets/a/b", "hub.address"),
        ("ftp://huggingface.co/a/b", "hub.address"),
        ("https://huggingface.co/a/b/blob/main/../../x", "hub.address"),
        ("a b c", "hub.address"),
        ("/etc/passwd", "hub.address"),
        ("https://elsewhere.example/a/b", "hub.unlisted"),
        ("elsewhere.example/a/b", "hub.unlisted"),
        ("https://huggingface.co@elsewhere.example/a/b", "hub.unlisted"),
        ("http://[::1/a/b", "hub.unlisted"),
    ],
)
def test_addresses_of_no_model(pasted, key):
    assert refused(parse_address, pasted, Hosts.read(USUAL)) == key


# ---- the login --------------------------------------------------------------------------------------


def test_a_gated_model_opens_with_the_login_and_nothing_of_it_stays_without(monkeypatch, tmp_path):
    with serving({FILE: SMALL}) as hub:
        hub.login = "Bearer hf_right"
        listed(hub, monkeypatch)
        monkeypatch.setenv("HF_ENDPOINT", f"{hub.origin}/")

        def read():
            forget()
            return HubTensor.of(HubAddress(REPO, file=FILE), "x.weight").tensor()[0, 1].item()

        assert refused(read) == "hub.login"
        monkeypatch.setenv("HF_TOKEN", "hf_wrong")
        assert refused(read) == "hub.denied"
        monkeypatch.setenv("HF_TOKEN", "hf_right")
        assert read() == 1
        assert "hf_right" not in repr(Hosts.of_environment())
        assert not any(b"hf_right" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
        hub.login = "closed"
        assert read() == 1  # kept for this login
        monkeypatch.delenv("HF_TOKEN")
        assert refused(read) == "hub.login"
        monkeypatch.setenv("HF_TOKEN", "hf_another")
        assert refused(read) == "hub.denied"


@pytest.mark.parametrize("kind", [Hosts, NamedHost])
def test_the_login_goes_to_its_hub_alone(kind, monkeypatch):
    monkeypatch.setattr(NamedHost, "allow", lambda *_: True)
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    with serving({FILE: SMALL}) as store, serving({FILE: SMALL}) as hub, serving({FILE: SMALL}) as other:
        monkeypatch.setenv("HF_ENDPOINT", hub.origin)
        listed(hub, monkeypatch, other.origin, store.origin)
        place = f"/{REPO}/resolve/{COMMIT}/{FILE}"

        def read(asked):
            hosts = kind.of_environment() if kind is Hosts else kind(named=asked.origin).logged_in()
            deadline = Deadline.of(5)
            got = get(asked.origin + place, hosts, HubLimits(), deadline, most=8, part=(0, 8))
            assert got.body == SMALL[:8]

        read(hub)
        hub.lie = other.lie = f"to {store.origin}{place}"
        read(hub)
        read(other)
        # Not even where another host leads to the hub itself, or the hub's own does.
        other.lie, hub.lie = f"to {hub.origin}{place}", ""
        read(other)
        assert hub.logins == ["Bearer hf_secret"] * 2 + [None]
        assert set(store.logins + other.logins) == {None}


@pytest.mark.parametrize(
    ("settings", "token"),
    [
        ({}, ""),
        ({"HF_TOKEN": " hf_a\n", "HUGGING_FACE_HUB_TOKEN": "hf_b"}, "hf_a"),
        ({"HUGGING_FACE_HUB_TOKEN": "hf_b"}, "hf_b"),
        ({"HF_TOKEN_PATH": "$HF_HOME/saved"}, "hf_saved"),
        ({"HF_TOKEN_PATH": "/nowhere"}, ""),
        ({"HF_HOME": "~/elsewhere"}, "hf_elsewhere"),
        ({"HF_TOKEN": "hf_a", DISABLED: "YES"}, ""),
        ({"HF_TOKEN": "hf_a", DISABLED: "0"}, "hf_a"),
    ],
)
def test_the_login_is_that_of_huggingface_hub(settings, token, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    for path, saved in (("hf/saved", "hf_saved\n"), ("elsewhere/token", "hf_elsewhere")):
        (tmp_path / path).parent.mkdir()
        (tmp_path / path).write_text(saved)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert hub_token() == token


def test_what_huggingface_hub_has_downloaded_is_not_fetched(monkeypatch, tmp_path):
    with serving({f"sub/{FILE}": SMALL}) as hub:
        listed(hub, monkeypatch)
        monkeypatch.setenv("HF_ENDPOINT", hub.origin)
        copy = tmp_path / f"hf/hub/models--{REPO.replace('/', '--')}/snapshots/{COMMIT}/sub/{FILE}"
        copy.parent.mkdir(parents=True)
        copy.write_bytes(SMALL)

        def read():
            forget()
            return HubTensor.of(HubAddress(REPO, file=f"sub/{FILE}"), "x.weight").tensor()[0, 1].item()

        assert (read(), hub.ranges) == (1, [])
        copy.write_bytes(SMALL[:-1])  # not all of it has come
        assert read() == 1
        assert len(hub.ranges) == 1
        # It may have taken a login, which visitors of the app do not have.
        copy.write_bytes(SMALL)
        monkeypatch.setenv("QUANTVIZ_CACHE_DIR", str(tmp_path / "again"))
        monkeypatch.setenv(DISABLED, "1")
        assert read() == 1
        assert len(hub.ranges) == 2


@pytest.mark.parametrize("token", ["hf_a\r\nHost: x", "hf_a b", "hf_中", "hf_\x7f"])
def test_what_is_no_token_is_neither_sent_nor_said(token, monkeypatch):
    monkeypatch.setenv(HUBS, USUAL)
    monkeypatch.setenv("HF_TOKEN", token)
    with pytest.raises(QuantVizError) as caught:
        find_model(HubAddress(REPO))
    assert caught.value.key == "hub.token"
    assert not any(token[:4] in caught.value.message(language) for language in languages())


def test_a_mirror_is_asked_in_place_of_the_usual_hub(monkeypatch):
    with serving({FILE: SMALL}) as mirror:
        monkeypatch.setenv(HUBS, USUAL)
        monkeypatch.setenv("HF_ENDPOINT", mirror.origin)
        source = HubTensor.of(HubAddress(REPO, file=FILE, host="huggingface.co"), "x.weight")
        assert source.tensor()[0, 1] == 1
    monkeypatch.setenv("HF_ENDPOINT", "http://hub.example")
    assert refused(Hosts.of_environment) == "hub.setting"


def test_the_app_asks_without_the_operators_login(monkeypatch):
    for name in ("send_at_once", "use_navigation", "import_all"):
        monkeypatch.setattr(server, name, lambda *_: None)
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    monkeypatch.setenv(DISABLED, "to be put back")
    monkeypatch.delenv(DISABLED)

    async def token():
        async with server.starting(Ahead())(None):
            return hub_token()

    assert asyncio.run(token()) == ""
    monkeypatch.setenv(DISABLED, "0")  # the operator says otherwise
    assert asyncio.run(token()) == "hf_secret"


# ---- limits ---------------------------------------------------------------------------------------


def test_what_is_kept_and_what_is_read_stay_within_their_bounds(monkeypatch, tmp_path):
    with serving({FILE: LARGE}) as hub:
        listed(hub, monkeypatch)
        file = ranges(hub, cache_bytes=4 * PIECE, tensor_bytes=3 * PIECE)
        assert refused(file.read, 0, 3 * PIECE + 1) == "hub.too_large"
        for start in range(0, 8 * PIECE, PIECE):
            assert file.read(start, start + 3) == LARGE[start : start + 3]
        on_disk = [path.stat().st_size for path in (tmp_path / "cache").rglob("*") if path.is_file()]
        assert 2 * PIECE < sum(on_disk) <= 4 * PIECE
        before = len(hub.ranges)
        file.read(7 * PIECE, 8 * PIECE)  # the newest is still there, the oldest is not
        assert len(hub.ranges) == before
        file.read(0, 3)
        assert len(hub.ranges) == before + 1
    monkeypatch.setenv("QUANTVIZ_HUB_SECONDS", "soon")
    assert refused(HubLimits.of_environment) == "limit_setting"


@contextlib.contextmanager
def stalling(hub, count, limits, monkeypatch, url=None):
    """So many readings of a hub that stalls go on, as many as it may have of them."""
    monkeypatch.setattr(connection, "PLACES", Places())
    hosts, part = Hosts.read(f"{hub.origin} http://127.0.0.1:1"), {"most": 8, "part": (0, 8)}
    url = url or f"{hub.origin}/{REPO}/resolve/{COMMIT}/{FILE}"
    deadline = Deadline.of(5)
    calls = [
        threading.Thread(target=refused, args=(get, url, hosts, limits, deadline), kwargs=part)
        for _ in range(count)
    ]
    for call in calls:
        call.start()
    most = min(count, limits.requests, limits.host_requests)
    while len(hub.ranges) < most:
        time.sleep(0.01)
    try:
        yield hosts, part
        assert len(hub.ranges) == most
    finally:
        deadline.given_up.set()
        hub.over.set()
        for call in calls:
            call.join()
    assert connection.PLACES.held() == {}


def test_requests_at_once_are_counted(monkeypatch):
    with serving({FILE: SMALL}, lie="stall") as hub:
        listed(hub, monkeypatch)
        limits = HubLimits(requests=1, host_requests=4)
        with stalling(hub, 1, limits, monkeypatch) as (hosts, part):
            url = "http://127.0.0.1:1/x"
            assert refused(get, url, hosts, limits, Deadline.of(0.1), **part) == "hub.crowded"


def test_a_hub_that_stalls_leaves_places_for_others(monkeypatch):
    """Ten readings of one hub hold its own places and no others; another hub answers meanwhile."""
    with serving({FILE: SMALL}, lie="stall") as hub, serving({FILE: SMALL}) as other:
        limits = HubLimits()
        assert limits.host_requests < limits.requests
        with stalling(hub, 10, limits, monkeypatch) as (hosts, part):
            url = f"{hub.origin}/{REPO}/resolve/{COMMIT}/{FILE}"
            assert refused(get, url, hosts, limits, Deadline.of(0.1), **part) == "hub.host_crowded"
            hosts = Hosts.read(f"{hub.origin} {other.origin}")
            there = f"{other.origin}/{REPO}/resolve/{COMMIT}/{FILE}"
            assert get(there, hosts, limits, Deadline.of(5), **part).body == SMALL[:8]
            # What is sent from there counts for the host that sends it, whoever redirects.
            other.lie = f"to {url}"
            assert refused(get, there, hosts, limits, Deadline.of(2), **part) == "hub.host_crowded"


def test_a_piece_that_was_damaged_on_the_disk_is_fetched_again(monkeypatch, tmp_path):
    with serving({FILE: SMALL}) as hub:
        listed(hub, monkeypatch)
        ranges(hub).read(0, 8)
        (piece,) = (path for path in (tmp_path / "cache").rglob("0"))
        piece.write_bytes(bytes(len(SMALL)))
        assert ranges(hub).read(0, 8) == SMALL[:8]
        assert len(hub.ranges) == 2


@pytest.mark.parametrize("damage", ["no json", "[]", "null", '{"sha": 5, "siblings": 7}', "[" * 10**5])
def test_a_listing_that_was_damaged_before_it_was_kept_is_fetched_again(damage, monkeypatch):
    """Its digest is right: another version of the program may have written it."""
    with serving({FILE: SMALL}) as hub:
        listed(hub, monkeypatch)
        place = HubAddress(REPO, COMMIT)
        found = find_model(place)
        forget()
        name = models._name(hub.name, place, Hosts.of_environment())
        kept = published.kept(HubLimits())
        kept.put(models._SHELF, name, damage.encode())
        assert find_model(place) == found
        assert json.loads(kept.get(models._SHELF, name)) == hub.listing()


def test_a_cache_that_cannot_be_written_is_no_error(monkeypatch, tmp_path):
    def refusing(*_, **__):
        raise PermissionError

    kept = ByteCache(tmp_path, 100)
    kept.put("shelf", "name", b"bytes")
    (tmp_path / "shelf" / "name").write_bytes(b"damaged")
    monkeypatch.setattr(Path, "unlink", refusing)
    assert kept.get("shelf", "name") is None
    kept.make_room(1000)
    assert kept.names("shelf") == {"name"}


def test_without_a_folder_nothing_is_kept():
    kept = ByteCache(None, 100)
    kept.make_room(5)
    kept.put("a", "b", b"c")
    assert (kept.get("a", "b"), kept.names("a")) == (None, set())


def test_the_script_of_a_published_tensor_runs(monkeypatch):
    with serving({FILE: SMALL}) as hub:
        listed(hub, monkeypatch)
        source = HubTensor.of(HubAddress(REPO, file=FILE), "x.weight")
        for large in (False, True):
            scope = {}
            exec("\n".join(source.code(large, "en")), scope)
            assert tuple(scope["x"].shape) == (4, 6)
    assert json.dumps(source.key)
