"""Results of scans: the file that keeps them, and long tables of tensors under recipes."""
