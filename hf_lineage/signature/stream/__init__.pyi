from .scale import MeasuredStream as MeasuredStream
from .scale import Stream as Stream
