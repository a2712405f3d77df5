"""Foreign files: models in the forms that other programs than transformers load, read as those of the Hub's disk."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
