"""Watch: what changes on the Hub, checked and written down, model by model."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
