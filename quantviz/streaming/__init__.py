"""The reference's results for tensors of any size: facts, ranges, metrics, codes, downsampled pictures."""
