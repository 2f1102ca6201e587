"""Whole models: every tensor of a checkpoint under any recipes; measurements are cached by content."""
