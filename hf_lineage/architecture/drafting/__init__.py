"""Drafting: a first registry file for a class that the registry does not list yet."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
