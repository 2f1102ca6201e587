"""The same answers for tensors of any size: facts, ranges, metrics and codes, and what a picture of some
pixels shows.
"""
