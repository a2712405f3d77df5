from .file import LARGEST as LARGEST
from .file import parse as parse
from .policy import ACCEPTED as ACCEPTED
from .policy import NO_POLICY as NO_POLICY
from .policy import REFUSED as REFUSED
from .policy import Policy as Policy
from .policy import Waiver as Waiver
from .policy import status as status
