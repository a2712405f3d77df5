from . import bases as bases
from . import identified as identified
from . import single as single
from .single import DIAGNOSES as DIAGNOSES
