from .files import BESIDE as BESIDE
from .files import PART as PART
from .files import SUFFIX as SUFFIX
from .files import choose_files as choose_files
from .files import read_head as read_head
from .form import GGUF as GGUF
