"""Index: known models by short keys, to find which of them a model comes from."""
