"""A model that runs: the character model and its twin, schemes of its layers and cache, and two runs."""
