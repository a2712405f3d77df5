"""Results that judge no claim: of one model, of the registry, and of an index."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
