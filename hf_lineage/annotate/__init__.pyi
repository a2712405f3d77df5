from . import annotation as annotation
from .annotation import Target as Target
