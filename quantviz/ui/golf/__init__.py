"""The page of quantization golf."""
