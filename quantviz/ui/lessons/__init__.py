"""The lessons page, its questions and a learner's progress."""
