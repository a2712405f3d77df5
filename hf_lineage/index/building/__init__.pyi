from . import building as building
from . import model_list as model_list
from .building import Progress as Progress
from .engines import ENGINES as ENGINES
from .engines import Work as Work
from .model_list import gather as gather
