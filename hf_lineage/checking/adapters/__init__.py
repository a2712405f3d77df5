"""Adapters: repositories that hold LoRA adapters, tested against the weights of the bases they declare."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
