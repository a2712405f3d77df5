from .torch_file import torch_header as torch_header
