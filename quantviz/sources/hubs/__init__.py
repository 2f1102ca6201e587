"""Published models: every answer of a hub counts as hostile, is bounded by `HubLimits`, and redirects only to
listed hosts at public addresses.
"""
