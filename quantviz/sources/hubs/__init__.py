"""Tensors of published models: read by byte ranges from the hubs that the operator lists.

Every answer of a hub counts as hostile: requests ask for no more than is needed, wait no longer than
`HubLimits` allow, and follow redirects only to listed hosts at public addresses.
"""
