"""Policy: what an organization accepts and asks of its models, in `lineage.yaml`."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
