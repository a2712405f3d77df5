from . import expected as expected
from . import router as router
from .activations import with_learned as with_learned
from .curves import Activation as Activation
from .expected import activation as activation
from .router import SCORES as SCORES
from .router import SIGMOID as SIGMOID
from .router import Scores as Scores
