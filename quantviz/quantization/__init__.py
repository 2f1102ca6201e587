"""The reference: grids, operations (one line of arithmetic each), quantize, explain, the facts of a
format.
"""
