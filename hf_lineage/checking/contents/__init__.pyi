from .kind import Asked as Asked
from .kind import Compared as Compared
from .kind import Judged as Judged
from .kinds import contents_of as contents_of
from .kinds import declared_in as declared_in
