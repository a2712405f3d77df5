from . import cache as cache
from . import store as store
from .origin import CACHE as CACHE
from .origin import FILE as FILE
from .origin import WEIGHTS as WEIGHTS
from .origin import Origin as Origin
from .store import encode as encode
from .store import load_signature as load_signature
