"""What a page's work may take: the table in `.github/SECURITY.md` has each of these."""

#: Seconds of one piece of long work, such as a search for the range of each of many blocks.
HEAVY_SECONDS = 20.0
#: Pieces of long work at once, of all sessions.
HEAVY_AT_ONCE = 1
#: Elements from which a search for ranges is long work.
HEAVY_ELEMENTS = 2**12
