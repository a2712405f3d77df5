"""Sources of signatures other than the weights: the cache of this machine, and files that a user names."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
