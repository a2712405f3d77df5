"""Storage formats: how the tensors of a model are stored, and how they are decoded."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
