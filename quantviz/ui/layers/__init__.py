"""The page of layers: a weight with its inputs, the error of its outputs, and its causes."""
