"""The choices that describe a quantization: formats, granularities, calibrations, conventions of engines,
schemes and recipes. None of these modules imports torch.
"""
