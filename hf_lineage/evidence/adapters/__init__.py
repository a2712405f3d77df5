"""Adapters: what the base of a LoRA adapter leaves in its factors, and the exact test for it."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
