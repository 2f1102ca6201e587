"""The page of checkpoints: a whole model as a map, its worst tensors, and the way to each in the Lab."""
