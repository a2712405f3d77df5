from .configuration import complete as complete
