"""Checkpoint: the names, shapes and values of a model's tensors, read one at a time, from a disk or the Hub."""
