"""Attacks in groups of tries with fixed seeds, each kept as a test: a sample in every run, all with `-m all`.

Random damage to valid files of each reader, for some minutes: `python -m tests.fuzz npz --minutes 3`.
"""
