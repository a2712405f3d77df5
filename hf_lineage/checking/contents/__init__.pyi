from .contents import Contents as Contents
from .contents import contents_of as contents_of
from .contents import declared_in as declared_in
from .model import Asked as Asked
from .model import Compared as Compared
from .model import Judged as Judged
