from .form import CTRANSLATE2 as CTRANSLATE2
