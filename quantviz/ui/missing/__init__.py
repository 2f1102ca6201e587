"""The page for an address that leads to none."""
