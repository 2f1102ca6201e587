"""The page of number formats."""
