"""The parts of the picture that can be shown, covered or left out, by their permanent names: lessons and
links use them.
"""

from __future__ import annotations

PANEL_PARTS = ("x", "q", "x_hat", "error")
TILE_PARTS = ("tiles.mse", "tiles.sqnr", "tiles.zeroed", "tiles.clipped", "tiles.bits")
#: The cell's sentence, its ruler and its derivation.
CELL_PARTS = ("sentence", "number_line", "steps")
#: More parts that the ruler can show: a normal density behind its dots, and the error against the range.
RULER_PARTS = ("bell", "curve")
#: How much of the ruler is drawn, each with all before it: sliders alone, dots and brackets, teeth with their
#: codes, the values below them, and bars and the colours of errors.
RULER_STAGES = ("slider", "dots", "codes", "values", "all")
#: Blocks' scales at the panels and on hover, a lesson's table, the scheme in words, the second lines of
#: tiles, and SQNR against bits.
OTHER_PARTS = ("scale", "table", "scheme", "tile_lines", "bits_plot")
#: Parts of a dial: its sentence with numbers, its picture and one beside it.
DIAL_PARTS = ("dial.numbers", "dial.picture", "dial.beside")
PICTURE_PARTS = (*PANEL_PARTS, *TILE_PARTS, *CELL_PARTS, *RULER_PARTS, *OTHER_PARTS, *DIAL_PARTS)
