from .fit import is_transposed as is_transposed
from .layers import KERNEL as KERNEL
from .layers import Shape as Shape
from .layers import named_tensors as named_tensors
from .layout import Layout as Layout
from .layout import bind as bind
from .matrix_sets import Heads as Heads
from .matrix_sets import LayerSet as LayerSet
