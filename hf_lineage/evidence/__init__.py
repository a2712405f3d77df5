"""Evidence: from two signatures to numbers, and from numbers to a verdict; NumPy and SciPy only."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
