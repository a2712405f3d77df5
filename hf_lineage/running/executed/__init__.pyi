from .child_process import Process as Process
from .child_process import Values as Values
from .child_process import refuse_without_extra as refuse_without_extra
from .request import TOKENIZER as TOKENIZER
from .request import Load as Load
from .request import Writer as Writer
