"""Building: models are read into an index, many at a time, and taken out of it."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
