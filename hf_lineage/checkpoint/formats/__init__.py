"""Storage formats: the tensors of a model as they are stored, and their decoding."""
