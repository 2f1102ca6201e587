"""Bounds of data from the disk: files of results and tables of tensors under recipes.

`.github/SECURITY.md` lists them, and a test compares the two.
"""

from __future__ import annotations

#: Bytes of one value in a results file, and of all values of one query.
RESULT_VALUE_BYTES = 2**22
RESULT_QUERY_BYTES = 2**28
#: Instructions of SQLite's machine for one query: a list of 262,144 tensors takes some seven million.
RESULT_STEPS = 2 * 10**7
#: Scans in a results file, recipes of a scan, and tensors of a scan: Kimi K2 has 138,241.
RESULT_SCANS = 1000
RESULT_RECIPES = 256
RESULT_TENSORS = 2**18
#: Rows of a scan: its tensors under its recipes.
RESULT_ROWS = 2**22
#: Characters of one text in a row, and digits of a number: float64 has up to 309 before the point.
TEXT_CHARACTERS = 2**16
NUMBER_DIGITS = 400
#: Bytes of a table's file, its rows, and its columns.
TABLE_BYTES = 2**30
TABLE_ROWS = 2**22
TABLE_COLUMNS = 256
#: Bytes of an importance matrix, which is held whole: that of DeepSeek R1 has some 1.2 billion.
IMPORTANCE_BYTES = 2**31
#: Bytes of a table that is one document of JSON: parsed it takes some ten times as much.
TABLE_JSON_BYTES = 2**28
