"""Lessons, the gallery of common bugs, and the functions of the notebooks."""
