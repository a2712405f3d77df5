from . import api as api
from .api import Report as Report
from .api import check_source as check_source
from .inspection import Inspection as Inspection
from .inspection import Pairing as Pairing
from .options import Options as Options
from .settings import TYPED as TYPED
from .settings import read_pairs as read_pairs
