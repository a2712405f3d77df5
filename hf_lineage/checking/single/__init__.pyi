from .doctor import Finding as Finding
from .doctor import State as State
from .doctor import diagnosis as diagnosis
from .inspection import Inspection as Inspection
from .inspection import Pairing as Pairing
from .inspection import inspect_model as inspect_model
