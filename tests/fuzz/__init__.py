"""Random damage to valid files of each reader, for some minutes: `python -m tests.fuzz npz --minutes 3`."""
