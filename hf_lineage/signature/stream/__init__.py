"""Stream: how large the residual stream is, and what writes into it beside the branches."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
