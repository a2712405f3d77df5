"""Nulls: the scores that independent models reach, by permutations or by models that are known to be independent."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
