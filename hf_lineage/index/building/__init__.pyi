from . import building as building
from . import model_list as model_list
from .engines import ENGINES as ENGINES
from .engines import Work as Work
