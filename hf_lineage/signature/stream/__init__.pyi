from .scale import Stream as Stream
from .writers import JOINED as JOINED
from .writers import LARGEST as LARGEST
from .writers import beside_base as beside_base
from .writers import writing as writing
