"""Parts that several pages show: the panels, choices, a cell's derivation, buttons."""
