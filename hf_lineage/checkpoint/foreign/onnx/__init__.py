"""ONNX: the weights of a graph, read as the tensors of transformers; no graph is run."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
