"""What is chosen, as values: formats, granularities, calibrations, conventions of engines, schemes, recipes.
Without torch.
"""
