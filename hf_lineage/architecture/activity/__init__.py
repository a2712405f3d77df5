"""Activity: how strongly units and experts act if the input of their branch is standard normal."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
