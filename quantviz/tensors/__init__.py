"""How a tensor is held and addressed: from what a person has to float32, lazy tensors, blocks, views."""
