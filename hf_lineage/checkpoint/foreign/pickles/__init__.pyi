from .form import PICKLE as PICKLE
