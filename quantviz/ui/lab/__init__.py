"""The Lab page: its frame and its tensor; a folder for each of its parts."""
