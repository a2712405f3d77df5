"""Contents: what a repository holds, found once, with one file for each kind of thing that it may hold."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
