"""The Lab's panels, the way through a tensor larger than the screen, and the ruler of a cell."""
