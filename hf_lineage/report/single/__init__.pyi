from . import bases as bases
from . import identified as identified
from . import single as single
from .single import COVERAGES as COVERAGES
from .single import DIAGNOSES as DIAGNOSES
from .single import PROOFS as PROOFS
from .suggestion import SUGGESTIONS as SUGGESTIONS
