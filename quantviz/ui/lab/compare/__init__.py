"""The tab Compare of the Lab's stage: schemes, recipes and engines."""
