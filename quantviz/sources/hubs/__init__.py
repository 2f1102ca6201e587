"""Tensors of published models: read by byte ranges from the hubs that the operator lists.

Everything a hub answers is taken for hostile: it is asked for no more than is needed, waited for no longer
than `HubLimits` say, and followed nowhere but to listed hosts at public addresses.
"""
