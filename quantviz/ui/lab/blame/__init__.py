"""The tab Blame of the Lab's stage."""
