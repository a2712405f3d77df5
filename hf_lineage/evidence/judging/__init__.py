"""Judging: from what was measured of two models, and the criteria, to a verdict."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
