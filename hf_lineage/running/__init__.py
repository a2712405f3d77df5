"""Running models, and what their classes say of settings: this needs torch and transformers, and is imported late."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
