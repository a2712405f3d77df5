"""Claims: what a repository says of its ancestry, and the files that say it."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
