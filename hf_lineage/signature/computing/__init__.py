"""Computing: arrays, threads and devices on which the numbers of a signature are computed."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
