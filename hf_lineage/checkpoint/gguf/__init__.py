"""GGUF: the files of llama.cpp, read as the tensors of transformers."""
