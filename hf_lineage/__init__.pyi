from .checking.api import Report as Report
from .checking.api import check as check
from .checking.api import compare as compare
from .checking.api import extract as extract
from .checking.api import inspect as inspect
from .checking.options import Options as Options
from .errors import LineageError as LineageError
from .signature.recipe import RECIPES as RECIPES
from .signature.recipe import Recipe as Recipe
from .signature.sources.store import load_signature as load_signature
from .signature.sources.store import save_signature as save_signature
from .signature.values import Signature as Signature

__version__: str
