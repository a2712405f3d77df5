from .header import OnnxError as OnnxError
from .tensors import config_of as config_of
from .tensors import files_of_onnx as files_of_onnx
from .tensors import files_of_pair as files_of_pair
from .tensors import graph_of as graph_of
from .tensors import open_onnx as open_onnx
from .tensors import open_pair as open_pair
