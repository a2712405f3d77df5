"""The Hub: what is asked of it and written to it, all through its own client; and what a repository's name means."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
