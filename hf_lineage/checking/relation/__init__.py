"""Relation: how a related model was made from its base, and what the weights say of what its card declares."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
