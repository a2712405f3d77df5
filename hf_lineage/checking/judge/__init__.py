"""Judge: two opened models are compared, test after test, until there is a verdict."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
