"""The tab Range of the Lab's stage."""
