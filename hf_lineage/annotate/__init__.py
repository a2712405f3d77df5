"""Annotate: the result of a check, written to the card of the model and to the record beside it."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
