"""Bounds of a page's work: the table in `.github/SECURITY.md` has each of these."""

#: Seconds of the processor of one piece of long work, such as a search for the range of each of many blocks.
HEAVY_SECONDS = 60
#: Bytes of memory of one piece of long work.
HEAVY_BYTES = 3 * 2**30
#: Elements from which a search for ranges is long work.
HEAVY_ELEMENTS = 2**12
#: Multiplications from which a layer is long work, its rounding and its methods counted in.
HEAVY_PRODUCTS = 2**29
#: Scores of all heads, queries by tokens, that the page /attention takes: some 400 MB while it works.
ATTENTION_SCORES = 2**22
#: Rows of a scan that the page /checkpoints reads: each takes some 3 kB of its memory.
RESULT_ROWS = 2**20
#: Characters of a typed text to find some of a file's names.
FIND_CHARACTERS = 200
#: Uploaded importance matrices that are kept on the disk for scans, the newest.
UPLOADED_IMATRICES = 4
#: Bytes of files that are dropped together: they are written to the server's disk for the session.
DROPPED_BYTES = 2**30
#: Most bytes of cached results about a session's own tensors.
SESSION_BYTES = 32 * 2**20
#: Bytes of a session's uploads that undo may ask for again; the open one and the one before it are kept
#: whatever their size.
UPLOAD_BYTES = 64 * 2**20
