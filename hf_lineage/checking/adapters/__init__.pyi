from .adapted import ROWS as ROWS
from .adapter_repository import Adapters as Adapters
from .adapter_repository import find_adapters as find_adapters
from .adapter_repository import judge_all as judge_all
from .adapter_repository import judge_each_on as judge_each_on
from .adapter_repository import open_place as open_place
from .adapters import Adapter as Adapter
from .adapters import judge_on as judge_on
