from .bnb import CODES as CODES
from .grid import E2M1 as E2M1
from .plain import PLAIN as PLAIN
from .plain import SETTINGS as SETTINGS
from .table import beside as beside
from .table import first_read as first_read
from .table import tensors_of as tensors_of
