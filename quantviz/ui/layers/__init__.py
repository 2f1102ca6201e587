"""The pages of layers and of attention: the error of outputs, and its causes."""
