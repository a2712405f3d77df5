"""Executed: a model is loaded by its own class and run, in a process of its own, to see what its stored parts do.

The parent, `child_process`, needs neither torch nor transformers. All else here is imported by that process alone.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
