"""Derivation: what was done to the matrices of a base, and how much each parent gave to a merge."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
