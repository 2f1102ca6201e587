"""The Lab's numbers: tiles, one line above the panels, every metric below the fold."""
