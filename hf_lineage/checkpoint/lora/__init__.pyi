from .factors import Factors as Factors
from .factors import Lora as Lora
from .factors import open_lora as open_lora
from .file import MAIN as MAIN
from .file import is_lora_file as is_lora_file
from .file import open_lora_file as open_lora_file
from .module_names import LAYERED as LAYERED
from .module_names import ModuleNames as ModuleNames
