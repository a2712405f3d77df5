from .files import choose_files as choose_files
from .files import list_models as list_models
from .files import read_head as read_head
from .form import GGUF as GGUF
