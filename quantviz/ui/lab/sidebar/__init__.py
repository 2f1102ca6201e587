"""The Lab's sidebar: the source of the tensor, its slice, NaN and Inf, the range."""
