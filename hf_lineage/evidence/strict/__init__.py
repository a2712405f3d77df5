"""Strict: every number of a model held against the base's, by what the format of each leaves."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
