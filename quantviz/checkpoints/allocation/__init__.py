"""Allocations: a recipe for each tensor within a budget of bits."""
