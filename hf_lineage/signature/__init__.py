"""Signature: the numbers, computed from the weights, by which models are compared."""
