"""The page of attention: what rounding keys and values does to it, and which channel brings that."""
