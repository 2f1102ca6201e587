"""The page of checkpoints: a whole model as a map, its worst tensors, the way into the Lab, an audit."""
