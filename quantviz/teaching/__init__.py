"""Lessons, the gallery of common bugs, quantization golf, and the functions of the notebooks."""
