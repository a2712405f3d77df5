from .family import figure as figure
from .formats import FORMATS as FORMATS
