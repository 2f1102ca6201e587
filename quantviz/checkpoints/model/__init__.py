"""A checkpoint as a model: its files, its tensors by name and kind, and an account of every byte."""
