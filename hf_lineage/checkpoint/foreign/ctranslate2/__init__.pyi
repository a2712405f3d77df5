from . import names as names
from .header import Ctranslate2Error as Ctranslate2Error
from .tensors import header_of as header_of
from .tensors import open_ctranslate2 as open_ctranslate2
