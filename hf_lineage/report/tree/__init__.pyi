from .formats import FORMATS as FORMATS
from .rows import CLAIMS as CLAIMS
from .rows import TONES as TONES
from .svg import Node as Node
from .svg import picture as picture
