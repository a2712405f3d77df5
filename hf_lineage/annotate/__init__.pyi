from . import annotation as annotation
from .annotation import Target as Target
from .section import NO_MORE as NO_MORE
from .section import NONE as NONE
from .section import figures as figures
from .section import share as share
