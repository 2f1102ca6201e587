"""The Lab page and its sidebar."""
