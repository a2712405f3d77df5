"""Units: the hidden units and heads of a model, as rows, and how they belong to those of another."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
