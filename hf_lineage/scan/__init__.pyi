from . import rendering as rendering
from .local_model import LocalModel as LocalModel
from .places import find_models as find_models
from .run import judge as judge
from .run import permit as permit
from .run import scanned as scanned
from .same import Digest as Digest
from .same import digest as digest
