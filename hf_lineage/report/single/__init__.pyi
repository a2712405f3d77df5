from . import bases as bases
from . import identified as identified
from . import single as single
