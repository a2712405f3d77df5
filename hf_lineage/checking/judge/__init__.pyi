from .ancestors import Step as Step
from .ancestors import reach as reach
from .ancestors import through as through
from .load_variants import judged_every_way as judged_every_way
