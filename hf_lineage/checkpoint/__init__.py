"""Checkpoint: the names, shapes and values of a model's tensors, read one at a time from a disk or from the Hub."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
