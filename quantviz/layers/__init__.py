"""A weight with its inputs: the error of a layer's outputs, split by its causes, down to one product."""
