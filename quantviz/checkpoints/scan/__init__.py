"""Scans: every tensor of a checkpoint measured under recipes."""
