"""Files of this machine: what a path names, YAML and safetensors within bounds, and replacing a file in one step."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
