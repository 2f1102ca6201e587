"""What a quantization cost, one formula each: moments, metrics, histogram bins, tables, the Gaussian
reference.
"""
