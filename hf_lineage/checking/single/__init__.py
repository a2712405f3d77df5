"""Single: what is asked of one model or of this machine, without a claim: inspections, drafts and diagnoses."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
