"""A class: its plan, its room with the votes of each stop, and the stores that keep it."""
