"""Addresses of files: `https://host/model.safetensors`, `s3://bucket/model/`."""

from __future__ import annotations

import re
from urllib.parse import quote

WEB = ("http", "https")
#: An address. Its scheme has two letters or more, because one letter is a drive.
_ADDRESS = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+)://(?P<place>[^?#]*)(?P<rest>[?#].*)?", re.DOTALL)


def is_address(path: object) -> bool:
    """>>> is_address("s3://bucket/x.gguf"), is_address("C://x.gguf"), is_address("folder/x.gguf")
    (True, False, False)
    """
    return isinstance(path, str) and _ADDRESS.fullmatch(path) is not None


def scheme_of(address: str) -> str:
    return address.partition("://")[0].lower()


def name_of(address: str) -> str:
    """>>> name_of("https://host/a/b.gguf?signature=1"), name_of("s3://bucket/folder/")
    ('b.gguf', 'folder')
    """
    return shown(address).rstrip("/").rpartition("/")[2]


def beside(address: str, name: str) -> str:
    """Return the address of another file in the same folder, which a file of the web may name in any letters.

    >>> beside("https://host/a/b.gguf?signature=1", "c.gguf")
    'https://host/a/c.gguf?signature=1'
    >>> beside("https://host/a/b.index.json", "b 1#.bin"), beside("s3://a/b.index.json", "b 1#.bin")
    ('https://host/a/b%201%23.bin', 's3://a/b 1#.bin')
    """
    before, rest = _split(address)
    return f"{before.rpartition('/')[0]}/{quote(name) if scheme_of(address) in WEB else name}{rest}"


def inside(address: str, name: str) -> str:
    before, rest = _split(address)
    return f"{before.rstrip('/')}/{name}{rest}"


def is_near(address: object, other: str) -> bool:
    """Return whether an address names a file in the folder of another, or below it.

    >>> [is_near(each, "s3://b/m/x.gguf") for each in ("s3://b/m/y.gguf", "s3://b/m2", "s3://c/m/x", 3)]
    [True, False, False, False]
    >>> is_near("https://host/m/../x", "https://host/m/x"), is_near("s3://b/m/x.gguf", "s3://b/m/")
    (False, True)
    """
    if not is_address(address) or not is_address(other):
        return False
    (before, rest), (folder, own) = _split(str(address)), _split(other)
    *parts, _ = folder.split("/")
    same = before.split("/")[: max(len(parts), 3)] == folder.split("/")[: max(len(parts), 3)]
    return rest == own and (before == folder or (same and ".." not in before.split("/")))


def shown(address: str) -> str:
    """Return an address without a signature, a name or a password.

    >>> shown("https://me:secret@host/x.gguf?signature=1"), shown("folder/x.gguf")
    ('https://host/x.gguf', 'folder/x.gguf')
    """
    if not is_address(address):
        return address
    scheme, _, rest = _split(address)[0].partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


def _split(address: str) -> tuple[str, str]:
    """Return an address before its query, and the query with all that follows."""
    found = _ADDRESS.fullmatch(address)
    assert found
    return f"{found['scheme']}://{found['place']}", found["rest"] or ""
