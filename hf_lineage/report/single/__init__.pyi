from . import bases as bases
from . import identified as identified
from . import single as single
from .coverage import COVERAGES as COVERAGES
from .proof import PROOFS as PROOFS
from .single import DIAGNOSES as DIAGNOSES
from .suggestion import SUGGESTIONS as SUGGESTIONS
