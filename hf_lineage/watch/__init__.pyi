from . import family as family
from . import messages as messages
from . import rendering as rendering
from . import run as run
from .ledger import read as read
from .run import Scope as Scope
