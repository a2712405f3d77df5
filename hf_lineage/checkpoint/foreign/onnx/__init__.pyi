from .form import ONNX as ONNX
from .form import ONNX_PAIR as ONNX_PAIR
