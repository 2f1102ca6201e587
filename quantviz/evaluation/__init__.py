"""The cost of a quantization, one formula each: moments, metrics, histogram bins, tables, the Gaussian
reference.
"""
