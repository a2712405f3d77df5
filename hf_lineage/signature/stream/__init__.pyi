from .scale import Stream as Stream
