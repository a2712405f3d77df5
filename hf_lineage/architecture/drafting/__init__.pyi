from .class_coverage import Coverage as Coverage
from .class_coverage import coverage as coverage
from .draft import Draft as Draft
from .suggestion import Fit as Fit
from .suggestion import Miss as Miss
from .suggestion import Suggestion as Suggestion
from .suggestion import survey as survey
