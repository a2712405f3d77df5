"""Which tensors the classes of transformers build and load: the real modules, asked under many settings."""
