"""Tensors of published models: read by byte ranges from the hubs that the operator lists.

Every answer of a hub counts as hostile, is bounded by `HubLimits`, and redirects only to listed hosts at
public addresses.
"""
