"""Source: what a name means, what lies there, and the model in it, of which the headers are read."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
