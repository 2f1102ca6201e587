"""The parts of the picture that can be shown, covered or left out, by their permanent names: lessons and
links use them.
"""

from __future__ import annotations

PANEL_PARTS = ("x", "q", "x_hat", "error")
TILE_PARTS = ("tiles.mse", "tiles.sqnr", "tiles.zeroed", "tiles.clipped", "tiles.bits")
#: The cell's sentence, its ruler and its derivation.
CELL_PARTS = ("sentence", "number_line", "steps")
#: Blocks' scales at the panels and on hover, a lesson's table, the scheme in words, the second lines of
#: tiles.
OTHER_PARTS = ("scale", "table", "scheme", "tile_lines")
PICTURE_PARTS = (*PANEL_PARTS, *TILE_PARTS, *CELL_PARTS, *OTHER_PARTS)
