from .outcome import CASTS as CASTS
from .outcome import Beyond as Beyond
from .outcome import Strict as Strict
from .tally import AT_ONCE as AT_ONCE
from .tally import Coded as Coded
from .tally import Tally as Tally
