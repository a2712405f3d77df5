from . import record as record
from .record import FILE as FILE
from .record import HERE as HERE
from .record import Record as Record
from .record import RecordedClaim as RecordedClaim
