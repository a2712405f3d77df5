"""Scan: the models on this disk, what each says that it comes from, and which store the same tensors."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
