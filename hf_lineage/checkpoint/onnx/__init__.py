"""ONNX: the weights of a graph, read as the tensors of transformers; no graph is run."""
