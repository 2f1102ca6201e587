"""The page of common bugs."""
