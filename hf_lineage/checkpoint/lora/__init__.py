"""LoRA adapters: their configuration and their factors, by themselves or added to the weights of a base."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
