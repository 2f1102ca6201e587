"""Random damage to files: a few small changes each, of numbers and words that mean something to readers."""

import struct
import zlib

NUMBERS = (
    0,
    1,
    2,
    7,
    8,
    16,
    31,
    32,
    127,
    128,
    255,
    256,
    2**15,
    2**16 - 1,
    2**24,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**53,
    2**62,
    2**63 - 1,
    2**63,
    2**64 - 1,
)
#: Words that mean something to one of the readers.
WORDS = (
    *(
        b"nan",
        b"inf",
        b"-",
        b"1e999",
        b"\xef\xbb\xbf",
        b"\xff\xfe",
        b"[",
        b"]",
        b"{",
        b"}",
        b'"',
        b",",
        b";",
        b"\n",
        b"\0",
        b"(",
        b")",
        b"...",
        b"tensor(",
    ),
    *(
        b"'descr'",
        b"'shape'",
        b"True",
        b"<f8",
        b">f4",
        b"|O",
        b"F8_E4M3",
        b"F4",
        b"BF16",
        b"data_offsets",
        b"__metadata__",
        b"weight_map",
        b"../",
    ),
    *(
        b"PK\x01\x02",
        b"PK\x03\x04",
        b"PK\x05\x06",
        b"PK\x06\x06",
        b"PK\x06\x07",
        b"\x80\x02",
        b"\x85R",
        b"cos\nsystem\n",
        b"\xed\xa0\x80",
        b"\xe2\x80\xae",
    ),
    *(
        b"\xff\xd8",
        b"\xff\xda",
        b"\xff\xc4",
        b"IDAT",
        b"PLTE",
        b"tRNS",
        b"IEND",
        b"GGUF",
        b"general.alignment",
    ),
)


def damaged(data, others, chance):
    """The file after one to eight small changes."""
    new = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 2, 4, 8))):
        place = (
            chance.randrange(len(new) + 1)
            if chance.random() < 0.5
            else chance.randrange(min(len(new), 300) + 1)
        )
        what = chance.randrange(10)
        if what == 0 and new:
            new[min(place, len(new) - 1)] ^= 1 << chance.randrange(8)
        elif what == 1 and new:
            new[min(place, len(new) - 1)] = chance.randrange(256)
        elif what == 2:
            packed = struct.pack(chance.choice("<>") + "Q", chance.choice(NUMBERS))
            width = chance.choice((1, 2, 4, 8))
            new[place : place + width] = packed[:width] if chance.random() < 0.5 else packed[-width:]
        elif what == 3:
            del new[place : place + chance.choice((1, 2, 4, 16, 100))]
        elif what == 4:
            new[place:place] = chance.choice(WORDS)
        elif what == 5:
            word = chance.choice(WORDS)
            new[place : place + len(word)] = word
        elif what == 6:
            other = chance.choice(others)
            start = chance.randrange(len(other))
            new[place:place] = other[start : start + chance.choice((4, 16, 64, 400))]
        elif what == 7:
            part = new[place : place + chance.choice((1, 4, 30, 100))]
            new[place:place] = part * chance.choice((1, 2, 50))
        elif what == 8:
            digits = str(chance.choice((*NUMBERS, -1, 1.5, 10**30))).encode()
            new[place : place + len(digits)] = digits
        else:
            del new[place:]
    return mended(bytes(new)) if chance.random() < 0.5 else bytes(new)


def mended(data):
    """A PNG with the check sums its changed parts should have: else most changes end there."""
    if not data.startswith(b"\x89PNG\r\n\x1a\n"):
        return data
    new, at = bytearray(data), 8
    while at + 12 <= len(new):
        length = int.from_bytes(new[at : at + 4], "big")
        end = at + 8 + length
        if end + 4 > len(new):
            break
        new[end : end + 4] = struct.pack(">I", zlib.crc32(new[at + 4 : end]))
        at = end + 4
    return bytes(new)
