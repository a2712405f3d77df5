"""The adapter registry: its files, their schema, and the factorization of each class of transformers."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
