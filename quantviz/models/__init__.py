"""Models that run: the character model and the adder, schemes of their layers and cache, and two runs."""
