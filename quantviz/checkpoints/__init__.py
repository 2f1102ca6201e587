"""Whole models: every tensor of a checkpoint under any recipes, and what was measured, kept by content."""
