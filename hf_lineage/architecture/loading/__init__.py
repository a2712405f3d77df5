"""Loading: what the libraries that run a model load of its files, by the names of tensors and by `config.json`."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
